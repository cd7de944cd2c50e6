// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/fill.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sluice::cuda {
namespace {

template <class Word>
__global__ void fill_kernel(Word* destination, Word pattern, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    destination[i] = pattern;
  }
}

template <class Word>
int launch(void* destination, const void* pattern, std::size_t count, void* stream) {
  if (count == 0) return cudaSuccess;
  Word word;
  std::memcpy(&word, pattern, sizeof word);
  constexpr unsigned threads = 256;
  const auto blocks =
      static_cast<unsigned>(std::min<std::size_t>((count + threads - 1) / threads, 8192));
  fill_kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<Word*>(destination), word, count);
  return cudaGetLastError();
}

template <class Word>
int load() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, fill_kernel<Word>);
}

}  // namespace

int load_fill() noexcept {
  for (const int status :
       {load<std::uint16_t>(), load<std::uint32_t>(), load<std::uint64_t>(), load<uint4>()}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

int launch_fill(void* destination, const void* pattern, std::size_t pattern_bytes,
                std::size_t count, void* stream) noexcept {
  switch (pattern_bytes) {
    case 2:
      return launch<std::uint16_t>(destination, pattern, count, stream);
    case 4:
      return launch<std::uint32_t>(destination, pattern, count, stream);
    case 8:
      return launch<std::uint64_t>(destination, pattern, count, stream);
    case 16:
      return launch<uint4>(destination, pattern, count, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace sluice::cuda
