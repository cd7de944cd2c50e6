// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/attention_functions.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"

#include <cuda_runtime.h>

namespace sluice::cuda {
namespace {

/// Whether the device of a lane has tensor cores for both types of 16 bits.
struct tensor_cores {
  tensor_cores(device_runtime& runtime, stream_ref) {
    const current_device_scope current(runtime.device());
    int device = 0;
    int major = 0;
    check(cudaGetDevice(&device));
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    available = major >= 8;
  }
  bool available = false;
};

}  // namespace

using namespace operations;

void prepare_attention(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_attention>>();
  (void)libraries.get<loaded_kernels<load_tensor_core_attention>>();
  (void)libraries.get<tensor_cores>();
}
void enqueue_attention(lane_libraries& libraries, const attention_call& call,
                       const attention_addresses& addresses) {
  const current_device_scope current(libraries.runtime().device());
  const bool uses_tensor_cores =
      suits_tensor_cores(call) && libraries.get<tensor_cores>().available;
  const auto launch = uses_tensor_cores ? launch_tensor_core_attention : launch_attention;
  check(static_cast<cudaError_t>(launch(call, addresses, libraries.stream().native())));
}

}  // namespace sluice::cuda
