// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/normalize_functions.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"

namespace sluice::cuda {

using namespace operations;

void prepare_normalize(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_normalize>>();
}
void enqueue_normalize(lane_libraries& libraries, const normalize_call& call,
                       const normalize_addresses& addresses) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(launch_normalize(call, addresses, libraries.stream().native())));
}

}  // namespace sluice::cuda
