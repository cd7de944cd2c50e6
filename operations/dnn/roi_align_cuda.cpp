// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/roi_functions.hpp"
#include "operations/elementwise/launch_map.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"
#include "runtime/seam.hpp"

namespace sluice::cuda {

using namespace operations;

void prepare_roi(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_map<roi_call>>>();
  (void)libraries.get<detail::error_words_of_lane>();
}
void enqueue_roi(lane_libraries& libraries, const roi_call& call, const map_addresses& addresses) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(launch_map(call, addresses, libraries.stream().native())));
}

}  // namespace sluice::cuda
