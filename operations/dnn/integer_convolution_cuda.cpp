// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/integer_convolution_functions.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"

namespace sluice::cuda {

using namespace operations;

void prepare_integer_convolution(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_integer_sums>>();
}
void enqueue_integer_convolution(lane_libraries& libraries, const integer_sums& call,
                                 const integer_addresses& addresses) {
  const current_device_scope current(libraries.runtime().device());
  check(
      static_cast<cudaError_t>(launch_integer_sums(call, addresses, libraries.stream().native())));
}

}  // namespace sluice::cuda
