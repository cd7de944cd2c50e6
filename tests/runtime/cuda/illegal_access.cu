// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/cuda/illegal_access.hpp"

namespace sluice::test {
namespace {

__global__ void write_to(int* address) {
  *address = 1;
}

}  // namespace

int launch_illegal_access(void* stream) noexcept {
  write_to<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(reinterpret_cast<int*>(16));
  return cudaGetLastError();
}

int load_illegal_access() noexcept {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, write_to);
}

}  // namespace sluice::test
