// SPDX-License-Identifier: Apache-2.0
#include "runtime/seam.hpp"

#include <sluice/operations/tensor_spec.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace sluice {

tensor_spec tensor_spec::of(const tensor& value) noexcept {
  tensor_spec spec{value.type(), value.shape(), value.strides(), max_alignment};
  if (const auto address = reinterpret_cast<std::uintptr_t>(value.address()); address != 0) {
    spec.alignment = std::min(max_alignment, std::size_t{1} << std::countr_zero(address));
  }
  return spec;
}

tensor_spec tensor_spec::row_major(element_type type, const extents& shape) {
  if (size_of(type) == 0) throw error(errc::invalid_argument, "type: is no element type");
  const auto refuse = [](const std::string& description) {
    throw error(errc::invalid_argument, "shape: " + description);
  };
  std::int64_t count = 1;
  bool overflows = false;
  for (const auto extent : shape) {
    if (extent < 0) refuse(to_string(shape) + " has a negative extent");
    overflows = overflows || __builtin_mul_overflow(count, extent, &count);
  }
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  const auto most =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(size_of(type));
  if (!empty && (overflows || count > most))
    refuse("the size of " + to_string(shape) + " overflows");
  return {type, shape, detail::row_major_strides(shape), max_alignment};
}

std::size_t tensor_spec::size() const noexcept {
  std::size_t count = 1;
  for (const auto extent : shape) {
    if (extent == 0) return 0;
    count *= static_cast<std::size_t>(extent);
  }
  return count;
}

bool tensor_spec::is_contiguous() const noexcept {
  const auto contiguous = detail::row_major_strides(shape);
  for (std::size_t i = 0; i < rank(); ++i) {
    if (shape[i] > 1 && strides[i] != contiguous[i]) return false;
  }
  return true;
}

bool tensor_spec::repeats_elements() const noexcept {
  if (size() == 0) return false;
  // Going through the dimensions by rising strides, each stride must exceed the reach of all
  // smaller ones.
  std::int64_t reach = 0;
  std::array<bool, extents::max_rank> visited{};
  while (true) {
    std::size_t next = rank();
    for (std::size_t i = 0; i < rank(); ++i) {
      if (!visited[i] && shape[i] > 1 && (next == rank() || strides[i] < strides[next])) next = i;
    }
    if (next == rank()) return false;
    if (strides[next] <= reach) return true;
    visited[next] = true;
    reach += (shape[next] - 1) * strides[next];
  }
}

}  // namespace sluice
