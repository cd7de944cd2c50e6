// SPDX-License-Identifier: Apache-2.0
#include "operations/core/member_kernels.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace sluice::operations {

namespace {

constexpr unsigned threads_per_block = 256;
constexpr std::size_t max_blocks_of_member = 256;

/// The places of a launch, in words.
struct place_words {
  std::size_t rows;
  std::size_t place_stride;
  std::size_t row_stride;
  unsigned row_words;
};

/// Calls `copy(index, row, column)` for the words of one place, at `index` behind its first one.
template <class Copy>
__device__ void for_each_word(const place_words& places, const Copy& copy) {
  const std::size_t words = places.rows * places.row_words;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * threads_per_block;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       i < words; i += stride) {
    const std::size_t row = places.rows == 1 ? 0 : i / places.row_words;
    const std::size_t column = i - row * places.row_words;
    copy(row * places.row_stride + column, row, static_cast<unsigned>(column));
  }
}

template <class Word>
__global__ void __launch_bounds__(threads_per_block)
    gather(const __grid_constant__ member_rows sources, Word* destination, place_words places) {
  const unsigned member = blockIdx.y;
  const bool is_there = member < sources.count;
  const auto* const source =
      is_there ? static_cast<const Word*>(sources.addresses[member]) : nullptr;
  const unsigned own_words = is_there ? sources.row_bytes[member] / sizeof(Word) : 0;
  Word* const place = destination + member * places.place_stride;
  for_each_word(places, [&](std::size_t index, std::size_t row, unsigned column) {
    place[index] = column < own_words ? source[row * own_words + column] : Word{};
  });
}

template <class Word>
__global__ void __launch_bounds__(threads_per_block)
    scatter(const Word* source, const __grid_constant__ member_rows destinations,
            place_words places) {
  const unsigned member = blockIdx.y;
  auto* const target = static_cast<Word*>(destinations.addresses[member]);
  const unsigned own_words = destinations.row_bytes[member] / sizeof(Word);
  const Word* const place = source + member * places.place_stride;
  for_each_word(places, [&](std::size_t index, std::size_t row, unsigned column) {
    if (column < own_words) target[row * own_words + column] = place[index];
  });
}

/// Calls `launch` with a value of the largest word in which everything can be copied.
template <class Launch>
int with_word(const member_rows& all, const void* places, std::size_t row_bytes,
              const Launch& launch) {
  auto bits = reinterpret_cast<std::uintptr_t>(places) | row_bytes;
  for (unsigned i = 0; i < all.count; ++i) {
    bits |= reinterpret_cast<std::uintptr_t>(all.addresses[i]) | all.row_bytes[i];
  }
  if (bits % sizeof(uint4) == 0) return launch(uint4{});
  if (bits % sizeof(std::uint32_t) == 0) return launch(std::uint32_t{});
  return launch(std::uint8_t{});
}

template <class Word>
place_words words_of(const place_shape& places) {
  return {places.rows, places.place_stride / sizeof(Word), places.row_stride / sizeof(Word),
          static_cast<unsigned>(places.row_bytes / sizeof(Word))};
}

dim3 blocks_for(const place_words& places, std::size_t members) {
  const std::size_t words = places.rows * places.row_words;
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

int launch_gather(const member_rows& sources, void* destination, const place_shape& places,
                  native_stream* stream) {
  return with_word(sources, destination, places.row_bytes, [&](auto word) -> int {
    using word_type = decltype(word);
    const auto words = words_of<word_type>(places);
    gather<<<blocks_for(words, places.count), threads_per_block, 0,
             reinterpret_cast<cudaStream_t>(stream)>>>(sources,
                                                       static_cast<word_type*>(destination), words);
    return cudaGetLastError();
  });
}

int launch_scatter(const void* source, const member_rows& destinations, const place_shape& places,
                   native_stream* stream) {
  return with_word(destinations, source, places.row_bytes, [&](auto word) -> int {
    using word_type = decltype(word);
    const auto words = words_of<word_type>(places);
    scatter<<<blocks_for(words, destinations.count), threads_per_block, 0,
              reinterpret_cast<cudaStream_t>(stream)>>>(static_cast<const word_type*>(source),
                                                        destinations, words);
    return cudaGetLastError();
  });
}

}  // namespace sluice::operations
