// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/quantize_call.hpp"

#include <sluice/operations/operation.hpp>

#include <cstdint>

// The implementations of `dynamic_quantize`; see `operation_functions`.
namespace sluice::operations {

/// The addresses of a launch. Without elements of x, neither x nor y has one.
struct dynamic_quantize_addresses {
  const void* x = nullptr;
  std::uint8_t* y = nullptr;
  float* scale = nullptr;
  std::uint8_t* zero_point = nullptr;

  /// The addresses of the map of the elements.
  [[nodiscard]] map_addresses of_elements() const noexcept { return {y, {x, scale, zero_point}}; }
};

}  // namespace sluice::operations

namespace sluice::host {
/// Finds the range of x, and computes y as `quantize` does.
void compute_dynamic_quantize(const operations::dynamic_quantize_call& call,
                              const operations::dynamic_quantize_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_dynamic_quantize(lane_libraries& libraries);
/// Enqueues two kernels for the range, and one for y.
void enqueue_dynamic_quantize(lane_libraries& libraries,
                              const operations::dynamic_quantize_call& call,
                              const operations::dynamic_quantize_addresses& addresses,
                              void* workspace);
}  // namespace sluice::cuda
