// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/arithmetic.hpp"
#include "operations/elementwise/indexed_dimensions.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/wide_elements.hpp"

#include <sluice/operations/scatter_combine.hpp>

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// The updates of a tensor, and its copy that they are made in.
struct scatter_work {
  map_layout<2> copy{};  ///< y, x
  /// y, updates, indices, in row-major order of the updates. y has stride 0 along the dimensions of
  /// the indices.
  map_layout<3> updates{};
  indexed_dimensions indexed{};  ///< of y
  /// Bit d: indices along dimension d of the updates may name the same element.
  std::uint32_t collisions = 0;
  scatter_combine combine = scatter_combine::set;
  bool in_order = false;  ///< whether updates of one element are made in row-major order
  index_report errors{};  ///< of the launch
};

/// The addresses of the operands. y may be x.
struct scatter_addresses {
  const void* x;
  const void* indices;
  const void* updates;
  void* y;
};

/// Sets an element of y to that of the updates.
template <class Bits>
struct set_body {
  void* y;
  const void* updates;
  SLUICE_HOST_DEVICE void operator()(std::int64_t place, std::int64_t update) const noexcept {
    put_element(y, place, element_at<Bits>(updates, update));
  }
};

/// An element and an update of it in the compute type `T`.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T combined(scatter_combine combine, T element,
                                                   T update) noexcept {
  if constexpr (!is_complex_v<T>) {
    if (combine == scatter_combine::minimum) return smaller(element, update);
    if (combine == scatter_combine::maximum) return larger(element, update);
  }
  if (combine == scatter_combine::add) return sum(element, update);
  if (combine == scatter_combine::multiply) return product(element, update);
  return update;
}

/// Combines an element of y with one of the updates. No other thread may do so at the same time.
template <class T>
struct combine_body {
  void* y;
  const void* updates;
  storage type;
  scatter_combine combine;
  SLUICE_HOST_DEVICE void operator()(std::int64_t place, std::int64_t update) const noexcept {
    store<overflow::wraps>(
        type, y, place, combined(combine, load<T>(type, y, place), load<T>(type, updates, update)));
  }
};

/// Makes one element of several that are set at once; see `elements_together`.
/// @return the size of an element in bytes
[[nodiscard]] inline int widen_updates(scatter_work& work, const scatter_addresses& addresses) {
  auto& layout = work.updates;
  const int size = bytes_of(layout.types[0]);
  const int width =
      elements_together(layout, 2, size, addresses.y, addresses.updates, [&](int candidate) {
        return work.indexed.has_strides_of(candidate) && layout.strides[2][layout.rank - 1] == 0;
      });
  widen(layout, 2, width);
  work.indexed.widen(width);
  return size * width;
}
/// Likewise for the copy.
[[nodiscard]] inline int widen_copy(scatter_work& work, const scatter_addresses& addresses) {
  const int size = bytes_of(work.copy.types[0]);
  const int width =
      elements_together(work.copy, 2, size, addresses.y, addresses.x, [](int) { return true; });
  widen(work.copy, 2, width);
  return size * width;
}

}  // namespace sluice::operations
