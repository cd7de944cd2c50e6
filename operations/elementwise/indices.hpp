// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/indexed_dimensions.hpp"

#include <sluice/operations/inference.hpp>
#include <sluice/operations/out_of_range_policy.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <cstddef>

// What operations with indices refuse, and their indexed dimensions.
namespace sluice::operations {

/// The properties of an operand that holds indices.
/// @throws error `invalid_argument` if it is not given, or neither of type i32 nor i64
[[nodiscard]] const tensor_spec& require_indices(const inference& inference,
                                                 const operand& indices);

/// The member `out_of_range` of an operation.
/// @throws error `invalid_argument` if it is no enumerator
out_of_range_policy require_policy(out_of_range_policy out_of_range);

/// Refuses indices that have another number of dimensions than X, or more elements than X along
/// another dimension than `axis`.
void require_indices_within(const inference& inference, const operand& indices,
                            const tensor_spec& x, std::size_t axis);

/// The number of dimensions of X, behind the first `batch_dims`, that the last dimension of the
/// indices names.
/// @throws error `invalid_argument` if there is none, or X has fewer
[[nodiscard]] std::size_t require_points(const inference& inference, const operand& indices,
                                         const tensor_spec& x, std::size_t batch_dims);

/// Refuses X without elements along one of the dimensions `first` to `first + count`.
void require_elements(const inference& inference, const operand& operand, const tensor_spec& x,
                      std::size_t first, std::size_t count);

/// The dimensions `first` to `first + count` of X, named by the last dimension of the indices if
/// there are several.
[[nodiscard]] indexed_dimensions indexed_dimensions_of(const tensor_spec& x,
                                                       const tensor_spec& indices,
                                                       std::size_t first, std::size_t count);

}  // namespace sluice::operations
