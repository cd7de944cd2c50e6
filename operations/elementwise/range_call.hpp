// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/arithmetic.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// y[i] = start + i · step. Operands: y, i. The latter is no memory: its position is the index.
struct range_call {
  map_layout<2> layout{};
  std::int64_t start = 0;  ///< of integers, whose multiples of the step wrap around
  std::int64_t step = 1;
  double real_start = 0;  ///< of floating-point numbers
  double real_step = 1;
};

/// Computes the elements of a `range_call` in the type `T`.
template <class T>
struct range_body {
  map_addresses addresses;
  T start;
  T step;

  SLUICE_HOST_DEVICE void operator()(const map_layout<2>& layout,
                                     const map_position<2>& position) const noexcept {
    store<overflow::wraps>(layout.types[0], addresses.y, position.offsets[0],
                           sum(start, product(static_cast<T>(position.offsets[1]), step)));
  }
};

template <class Run>
int visit(const range_call& call, const map_addresses& addresses, const Run& run) {
  if (call.layout.types[0] < storage::f16) {
    return run(range_body<std::int64_t>{addresses, call.start, call.step}, call.layout);
  }
  return run(range_body<double>{addresses, call.real_start, call.real_step}, call.layout);
}

}  // namespace sluice::operations
