// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/indexed_pool_functions.hpp"
#include "operations/dnn/pool_functions.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"

namespace sluice::cuda {

using namespace operations;

void prepare_pool(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_pool>>();
}
void enqueue_pool(lane_libraries& libraries, const pool_call& call, const void* x, void* y) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(launch_pool(call, x, y, libraries.stream().native())));
}
void prepare_indexed_pool(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_indexed_pool>>();
}
void enqueue_indexed_pool(lane_libraries& libraries, const indexed_pool_call& call,
                          const indexed_pool_addresses& addresses) {
  const current_device_scope current(libraries.runtime().device());
  check(
      static_cast<cudaError_t>(launch_indexed_pool(call, addresses, libraries.stream().native())));
}

}  // namespace sluice::cuda
