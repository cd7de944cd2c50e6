// SPDX-License-Identifier: Apache-2.0
#include "operations/program/member_kernels.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace sluice::operations {

namespace {

constexpr unsigned threads_per_block = 256;
constexpr std::size_t max_blocks_of_member = 256;

template <class Word>
__global__ void __launch_bounds__(threads_per_block)
    gather(member_addresses from, unsigned members, Word* to, std::size_t words) {
  const unsigned member = blockIdx.y;
  const auto* const source = member < members ? static_cast<const Word*>(from.of[member]) : nullptr;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * threads_per_block;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       i < words; i += stride) {
    to[member * words + i] = source != nullptr ? source[i] : Word{};
  }
}

template <class Word>
__global__ void __launch_bounds__(threads_per_block)
    scatter(const Word* from, member_addresses to, std::size_t words) {
  const unsigned member = blockIdx.y;
  auto* const target = static_cast<Word*>(to.of[member]);
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * threads_per_block;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       i < words; i += stride) {
    target[i] = from[member * words + i];
  }
}

/// Calls `launch` with a value of the largest word in which everything can be copied.
template <class Launch>
int with_word(const member_addresses& all, std::size_t members, const void* stacked,
              std::size_t bytes, const Launch& launch) {
  auto bits = reinterpret_cast<std::uintptr_t>(stacked) | bytes;
  for (std::size_t i = 0; i < members; ++i) bits |= reinterpret_cast<std::uintptr_t>(all.of[i]);
  if (bits % sizeof(uint4) == 0) return launch(uint4{});
  if (bits % sizeof(std::uint32_t) == 0) return launch(std::uint32_t{});
  return launch(std::uint8_t{});
}

dim3 blocks_for(std::size_t words, std::size_t members) {
  const std::size_t wanted = (words + threads_per_block - 1) / threads_per_block;
  return {static_cast<unsigned>(std::min(wanted, max_blocks_of_member)),
          static_cast<unsigned>(members)};
}

template <class Word>
cudaError_t load() {
  cudaFuncAttributes attributes;
  const cudaError_t result = cudaFuncGetAttributes(&attributes, gather<Word>);
  return result != cudaSuccess ? result : cudaFuncGetAttributes(&attributes, scatter<Word>);
}

}  // namespace

int load_member_kernels() {
  for (const cudaError_t result : {load<uint4>(), load<std::uint32_t>(), load<std::uint8_t>()}) {
    if (result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

int launch_gather(const member_addresses& from, std::size_t members, void* to, std::size_t bytes,
                  std::size_t count, native_stream* stream) {
  return with_word(from, members, to, bytes, [&](auto word) -> int {
    using word_type = decltype(word);
    const std::size_t words = bytes / sizeof(word_type);
    gather<<<blocks_for(words, count), threads_per_block, 0,
             reinterpret_cast<cudaStream_t>(stream)>>>(from, static_cast<unsigned>(members),
                                                       static_cast<word_type*>(to), words);
    return cudaGetLastError();
  });
}

int launch_scatter(const void* from, const member_addresses& to, std::size_t members,
                   std::size_t bytes, native_stream* stream) {
  return with_word(to, members, from, bytes, [&](auto word) -> int {
    using word_type = decltype(word);
    const std::size_t words = bytes / sizeof(word_type);
    scatter<<<blocks_for(words, members), threads_per_block, 0,
              reinterpret_cast<cudaStream_t>(stream)>>>(static_cast<const word_type*>(from), to,
                                                        words);
    return cudaGetLastError();
  });
}

}  // namespace sluice::operations
