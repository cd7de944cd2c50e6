// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/rotary_functions.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"

namespace sluice::cuda {

using namespace operations;

void prepare_rotary(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_rotary>>();
}
void enqueue_rotary(lane_libraries& libraries, const rotary_call& call,
                    const rotary_addresses& addresses) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(launch_rotary(call, addresses, libraries.stream().native())));
}

}  // namespace sluice::cuda
