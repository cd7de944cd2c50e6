// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/inference.hpp>
#include <sluice/operations/operation_descriptor.hpp>

#include <span>

namespace sluice::operations {

/// The work of a launch with these uses of its operands, in the units of `request_limits`: one for
/// each element that it touches, and what the operation states beyond that.
[[nodiscard]] double work_of(const launch_facts& facts,
                             std::span<const inference::use> uses) noexcept;

}  // namespace sluice::operations
