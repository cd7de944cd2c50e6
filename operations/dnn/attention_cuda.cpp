// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/attention_functions.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"

#include <cuda_runtime.h>

namespace sluice::cuda {

using namespace operations;

namespace {

/// Whether the device of a lane has tensor cores for both types of 16 bits, and their kernels.
struct tensor_core_attention {
  tensor_core_attention(device_runtime& runtime, stream_ref) {
    const current_device_scope current(runtime.device());
    int device = 0;
    int major = 0;
    check(cudaGetDevice(&device));
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    if (major < 8) return;
    check(static_cast<cudaError_t>(load_tensor_core_attention()));
    check(static_cast<cudaError_t>(load_split_attention()));
    launch = launch_tensor_core_attention;
    if (major != 9 || !has_warpgroup_attention()) return;
    check(static_cast<cudaError_t>(load_warpgroup_attention()));
    launch = launch_warpgroup_attention;
  }
  decltype(&launch_tensor_core_attention) launch = nullptr;
  int processors = 0;
};

}  // namespace

void prepare_attention(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_attention>>();
  (void)libraries.get<tensor_core_attention>();
}
void enqueue_attention(lane_libraries& libraries, const attention_call& call,
                       const attention_addresses& addresses) {
  const current_device_scope current(libraries.runtime().device());
  const auto& cores = libraries.get<tensor_core_attention>();
  auto* const stream = libraries.stream().native();
  const auto launch = [&] {
    if (cores.launch == nullptr || !suits_tensor_cores(call)) {
      return launch_attention(call, addresses, stream);
    }
    if (suits_split_attention(call, addresses, cores.processors)) {
      return launch_split_attention(call, addresses, stream);
    }
    return cores.launch(call, addresses, cores.processors, stream);
  };
  check(static_cast<cudaError_t>(launch()));
}

}  // namespace sluice::cuda
