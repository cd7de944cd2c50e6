// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/hazards/hazard_kernels.hpp"

namespace sluice::test {
namespace {

__global__ void mix_kernel(mix_arguments m) {
  const long long begun = clock64();
  while (clock64() - begun < static_cast<long long>(m.delay)) {
  }
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < m.count;
       i += stride) {
    const hazard_word a = m.a != nullptr ? m.a[i % m.a_count] : i;
    const hazard_word b = m.b != nullptr ? m.b[i % m.b_count] : i;
    m.out[i] = mixed(a, b, m.constant);
  }
}

}  // namespace

int launch_mix(const mix_arguments& arguments, void* stream) noexcept {
  if (arguments.count == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>((arguments.count + 127) / 128);
  mix_kernel<<<blocks, 128, 0, static_cast<cudaStream_t>(stream)>>>(arguments);
  return cudaGetLastError();
}

}  // namespace sluice::test
