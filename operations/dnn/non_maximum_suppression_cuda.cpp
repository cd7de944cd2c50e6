// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/suppression_functions.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"

namespace sluice::cuda {

using namespace operations;

void prepare_suppression(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_suppression>>();
}
void enqueue_suppression(lane_libraries& libraries, const suppression_call& call,
                         const suppression_addresses& addresses) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(launch_suppression(call, addresses, libraries.stream().native())));
}

}  // namespace sluice::cuda
