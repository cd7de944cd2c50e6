// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/operation_descriptor.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::operations {

/// Where the axis along which runs lie in the operands of a step is in its results, if the step
/// does not couple it (`inference::couple`).
enum class batch_rule : std::uint8_t {
  aligned,     ///< at the same distance from the last axis: the operands are broadcast
  same_place,  ///< at the same distance from the first axis
  moves,       ///< where the extents tell: each extent of a result is that of one operand
  mixes,       ///< nowhere
};

/// The rule of an operation of sluice. Nothing of any other operation, whatever its name.
[[nodiscard]] std::optional<batch_rule> rule_of(const operation_descriptor& descriptor);
/// The rule of the operation with this name; nothing if the table has none.
[[nodiscard]] std::optional<batch_rule> rule_of(std::string_view name) noexcept;

}  // namespace sluice::operations
