// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/indexed_dimensions.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/wide_elements.hpp"

#include <sluice/operations/out_of_range_policy.hpp>

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// y = the element of x at the place that indices name. Operands: y, x, indices. The indexed
/// dimensions of x are left out of the layout.
struct gather_call {
  map_layout<3> layout{};
  indexed_dimensions indexed{};  ///< of x
  out_of_range_policy out_of_range = out_of_range_policy::usual;
  index_report errors{};  ///< of the launch
};

/// Computes the elements of a `gather_call`, which are copied as `Bits`.
template <class Bits>
struct gather_body {
  map_addresses addresses;
  indexed_dimensions indexed;
  index_report errors;

  SLUICE_HOST_DEVICE void operator()(const map_layout<3>&,
                                     const map_position<3>& position) const noexcept {
    const auto place = indexed.place(addresses.inputs[1], position.offsets[2], errors);
    put_element(addresses.y, position.offsets[0],
                element_at<Bits>(addresses.inputs[0], position.offsets[1] + place));
  }
};

template <class Run>
int visit(const gather_call& call, const map_addresses& addresses, const Run& run) {
  auto layout = call.layout;
  auto indexed = call.indexed;
  const int size = bytes_of(layout.types[0]);
  const int width =
      elements_together(layout, 2, size, addresses.y, addresses.inputs[0], [&](int candidate) {
        return indexed.has_strides_of(candidate) && layout.strides[2][layout.rank - 1] == 0;
      });
  widen(layout, 2, width);
  indexed.widen(width);
  return visiting::with_bits(size * width, [&](auto bits) {
    return run(gather_body<decltype(bits)>{addresses, indexed, call.errors}, layout);
  });
}

}  // namespace sluice::operations
