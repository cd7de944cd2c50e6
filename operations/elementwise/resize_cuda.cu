// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/map_kernel.cuh"
#include "operations/elementwise/resize_pass.hpp"
#include "operations/elementwise/resize_pixels.cuh"

namespace sluice::operations {

// Kernels differ by the number of axes, and not by all element types.
template <>
int load_map<resize_pass>() {
  int status = 0;
  for (const auto type : {storage::f32, storage::f64}) {
    for (int axes = 1; axes <= resize_pass::max_axes; ++axes) {
      resize_pass pass{};
      pass.layout.types[0] = type;
      pass.axis_count = axes;
      if (status == 0) status = visit(pass, map_addresses{}, map_loader{});
    }
  }
  for (const auto type : {storage::u8, storage::f16, storage::bf16, storage::f32}) {
    for (const int channels : {1, 3, 4}) {
      (void)with_pixels_kernel(type, channels, [&](auto* kernel) {
        cudaFuncAttributes attributes;
        if (status == 0) status = cudaFuncGetAttributes(&attributes, kernel);
      });
    }
  }
  return status;
}

template <>
int launch_map(const resize_pass& pass, const map_addresses& addresses, native_stream* stream) {
  auto* const cuda_stream = reinterpret_cast<cudaStream_t>(stream);
  if (launch_pixels(pass, addresses, cuda_stream)) return cudaGetLastError();
  return visit(pass, addresses, map_launcher{cuda_stream});
}

}  // namespace sluice::operations
