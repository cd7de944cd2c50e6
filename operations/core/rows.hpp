// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/tensor_spec.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice::operations {

/// The distance between neighbours of a stack if one distance leads through all of it. `stack` are
/// the extents of the stack; its members have the last `inner` dimensions of `s`. The dimensions of
/// the stack are aligned at the last one; those that are missing or have extent 1 in `s` are
/// repeated, with the distance 0.
[[nodiscard]] std::optional<std::int64_t> distance_of(const tensor_spec& s, std::size_t inner,
                                                      const extents& stack);

/// The leading dimensions of `s`, without the last `inner`.
[[nodiscard]] extents stack_of(const tensor_spec& s, std::size_t inner);

/// The shape of a result that a parameter `shape` or the given result states.
/// @throws error `invalid_argument` with the name "shape" if there is neither, an extent is
/// negative, or the size in bytes overflows
[[nodiscard]] extents stated_shape(const std::optional<extents>& shape, const tensor_spec* result,
                                   element_type type);

}  // namespace sluice::operations
