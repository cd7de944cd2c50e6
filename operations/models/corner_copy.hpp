// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/runtime/extents.hpp>
#include <sluice/runtime/tensor.hpp>

namespace sluice::detail {

/// The tensor with zeros behind its elements along each dimension; itself if it has this shape.
/// `shape` has its rank, and no extent is smaller.
/// @throws std::bad_alloc if there is no memory
[[nodiscard]] host_tensor padded_to(const host_tensor& x, const extents& shape);

/// Whether the first elements along each dimension of a host tensor `whole` are shared by `cut_to`:
/// they lie together, and are not a small part of it.
[[nodiscard]] bool are_shared(const extents& part, const extents& whole) noexcept;

/// The first elements of a tensor along each dimension; itself if it has this shape. The elements
/// of a `tensor` are shared. Those of a `host_tensor` are copied unless `are_shared`.
/// @throws std::bad_alloc if there is no memory
///@{
[[nodiscard]] SLUICE_EXPORT tensor cut_to(const tensor& x, const extents& shape);
[[nodiscard]] SLUICE_EXPORT host_tensor cut_to(const host_tensor& x, const extents& shape);
///@}

}  // namespace sluice::detail
