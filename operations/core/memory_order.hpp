// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/tensor_spec.hpp>

#include <initializer_list>

// The order in which the dimensions of a tensor lie in memory, the outermost one first. No
// dimension at all stands for row-major order.
namespace sluice::operations {

/// The order of a new result that lies as `s` does. Row-major, if `s` is contiguous or repeats
/// elements.
[[nodiscard]] extents memory_order(const tensor_spec& s);
/// Likewise of a new result of the shape `shape`, which lies as the first operand of this shape
/// without repeated elements does; in row-major order if there is none.
[[nodiscard]] extents memory_order(const extents& shape,
                                   std::initializer_list<const tensor_spec*> operands);

/// All dimensions in the order of memory.
[[nodiscard]] extents dimensions_in_memory(const tensor_spec& s);

/// The properties of a new tensor whose dimensions lie in this order.
[[nodiscard]] tensor_spec spec_in_order(element_type type, const extents& shape,
                                        const extents& order);
/// Whether the elements lie without gaps, with all dimensions in this order.
[[nodiscard]] bool lies_in(const tensor_spec& s, const extents& order);

}  // namespace sluice::operations
