// SPDX-License-Identifier: Apache-2.0
#include "operations/models/corner_copy.hpp"

#include <sluice/runtime/element_type.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::detail {
namespace {

/// The bytes of what lies behind one index of `axis` in a row-major tensor.
[[nodiscard]] std::size_t stride_of(const host_tensor& x, std::size_t axis) noexcept {
  std::size_t bytes = size_of(x.type());
  for (auto i = axis + 1; i < x.shape().size(); ++i) {
    bytes *= static_cast<std::size_t>(x.shape()[i]);
  }
  return bytes;
}

/// Copies the elements with indices below `shape`, from dimension `axis` on.
void copy_corner(const host_tensor& source, const std::byte* source_bytes,
                 const host_tensor& target, std::byte* target_bytes, const extents& shape,
                 std::size_t axis) {
  const auto source_stride = stride_of(source, axis);
  const auto target_stride = stride_of(target, axis);
  const auto count = static_cast<std::size_t>(shape[axis]);
  // The strides are equal if all dimensions behind this one are whole in both.
  bool is_whole = true;
  for (auto i = axis + 1; i < shape.size(); ++i) {
    is_whole = is_whole && source.shape()[i] == shape[i] && target.shape()[i] == shape[i];
  }
  if (is_whole) {
    std::memcpy(target_bytes, source_bytes, count * source_stride);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    copy_corner(source, source_bytes + i * source_stride, target, target_bytes + i * target_stride,
                shape, axis + 1);
  }
}

void copy_corner(const host_tensor& source, host_tensor& target, const extents& shape) {
  for (const auto extent : shape) {
    if (extent == 0) return;
  }
  copy_corner(source, static_cast<const std::byte*>(source.data().get()), target,
              static_cast<std::byte*>(target.data().get()), shape, 0);
}

}  // namespace

host_tensor padded_to(const host_tensor& x, const extents& shape) {
  if (x.shape() == shape) return x;
  host_tensor result(x.type(), shape);
  std::memset(result.data().get(), 0, result.bytes());
  copy_corner(x, result, x.shape());
  return result;
}

bool are_shared(const extents& part, const extents& whole) noexcept {
  // A client that keeps a result keeps all of the memory.
  constexpr std::int64_t least_share = 4;
  std::int64_t factor = 1;
  // Behind the first dimension with several indices, all are whole.
  bool has_indices = false;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != whole[i]) {
      if (has_indices || part[i] == 0) return false;
      factor *= whole[i] / part[i];
    }
    has_indices = has_indices || part[i] != 1;
    if (factor > least_share) return false;
  }
  return true;
}

tensor cut_to(const tensor& x, const extents& shape) {
  auto result = x;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (result.shape()[i] != shape[i]) result = result.slice(i, 0, shape[i]);
  }
  return result;
}

host_tensor cut_to(const host_tensor& x, const extents& shape) {
  if (x.shape() == shape) return x;
  if (are_shared(shape, x.shape())) {
    std::int64_t count = 1;
    for (const auto extent : shape) count *= extent;
    return x.reshape({static_cast<std::int64_t>(x.size())}).first(count).reshape(shape);
  }
  host_tensor result(x.type(), shape);
  copy_corner(x, result, shape);
  return result;
}

}  // namespace sluice::detail
