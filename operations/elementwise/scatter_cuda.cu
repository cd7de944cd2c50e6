// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/launch_map.hpp"
#include "operations/elementwise/scatter_work.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = 256;
// Beyond this the loops in the kernels take the rest. Blocks of a copy that is not needed end at
// once, and a few thousand of them take little time.
constexpr std::int64_t max_blocks = 4096;

[[nodiscard]] unsigned blocks_for(std::int64_t threads) {
  const std::int64_t block_count = (threads + threads_per_block - 1) / threads_per_block;
  return static_cast<unsigned>(block_count < max_blocks ? block_count : max_blocks);
}

/// Calls `visit` with the numbers from that of the thread on, one for each round of the grid.
template <class Visit>
__device__ void for_each_of_thread(std::int64_t count, const Visit& visit) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       i < count; i += stride) {
    visit(i);
  }
}

/// Copies x to y, unless they are the same. A captured launch may get other addresses, so that the
/// kernel decides it.
template <class Bits>
__global__ void __launch_bounds__(threads_per_block)
    copy_kernel(const __grid_constant__ map_layout<2> layout, const Bits* x, Bits* y) {
  if (x == y) return;
  for_each_of_thread(layout.count, [&](std::int64_t i) {
    const auto position = position_of(layout, i);
    y[position.offsets[0]] = x[position.offsets[1]];
  });
}

/// Replaces `Word` at `address` by `change(word)`, as one atomic operation.
template <class Word, class Change>
__device__ void change_word(Word* address, const Change& change) {
  Word old = *reinterpret_cast<volatile Word*>(address);
  while (true) {
    const Word next = change(old);
    if (next == old) return;
    const Word found = atomicCAS(address, old, next);
    if (found == old) return;
    old = found;
  }
}

/// Combines an element of y with one of the updates, as one atomic operation; that of c128 is one
/// for each part of the number.
template <class T>
struct atomic_body {
  void* y;
  const void* updates;
  storage type;
  scatter_combine combine;

  __device__ void operator()(std::int64_t place, std::int64_t update) const {
    const T value = load<T>(type, updates, update);
    if (combine == scatter_combine::add && add(place, value)) return;
    switch (bytes_of(type)) {
      case 8:
        return change_element<unsigned long long>(place, value);
      case 4:
        return change_element<unsigned>(place, value);
      default:
        return change_element<unsigned short>(place, value);
    }
  }

 private:
  /// Changes the word that has an element.
  template <class Word>
  __device__ void change_element(std::int64_t place, const T& value) const {
    const auto size = static_cast<unsigned>(bytes_of(type));
    const auto address =
        reinterpret_cast<std::uintptr_t>(y) + static_cast<std::uintptr_t>(place) * size;
    const auto within = static_cast<std::int64_t>(address % sizeof(Word) / size);
    change_word(reinterpret_cast<Word*>(address - address % sizeof(Word)), [&](Word word) {
      store<overflow::wraps>(type, &word, within,
                             combined(combine, load<T>(type, &word, within), value));
      return word;
    });
  }
  /// Adds with an instruction, if there is one.
  __device__ bool add(std::int64_t place, const T& value) const {
    if constexpr (is_complex_v<T>) {
      if (type == storage::c64) {
        auto* const parts = static_cast<float*>(y) + 2 * place;
        atomicAdd(parts, static_cast<float>(value.real));
        atomicAdd(parts + 1, static_cast<float>(value.imaginary));
      } else {
        auto* const parts = static_cast<double*>(y) + 2 * place;
        atomicAdd(parts, static_cast<double>(value.real));
        atomicAdd(parts + 1, static_cast<double>(value.imaginary));
      }
      return true;
    } else if constexpr (std::is_same_v<T, float>) {
      if (type == storage::f32) atomicAdd(static_cast<float*>(y) + place, value);
      return type == storage::f32;
    } else if constexpr (std::is_same_v<T, double>) {
      atomicAdd(static_cast<double*>(y) + place, value);
      return true;
    } else {
      if (bytes_of(type) == 4) {
        atomicAdd(static_cast<unsigned*>(y) + place, static_cast<unsigned>(value));
      } else if (bytes_of(type) == 8) {
        atomicAdd(static_cast<unsigned long long*>(y) + place,
                  static_cast<unsigned long long>(value));
      }
      return bytes_of(type) >= 4;
    }
  }
};

/// Makes updates in any order.
template <class Body>
__global__ void __launch_bounds__(threads_per_block)
    update_kernel(const Body body, const __grid_constant__ scatter_work work, const void* indices) {
  for_each_of_thread(work.updates.count, [&](std::int64_t i) {
    const auto position = position_of(work.updates, i);
    body(position.offsets[0] + work.indexed.place(indices, position.offsets[2], work.errors),
         position.offsets[1]);
  });
}

/// The positions at index number `index` of those dimensions of which `mask` has a bit.
[[nodiscard]] __device__ map_position<3> position_within(const map_layout<3>& layout,
                                                         std::uint32_t mask, std::int64_t index) {
  map_position<3> position{};
#pragma unroll 1
  for (int d = layout.rank - 1; d >= 0; --d) {
    if (((mask >> d) & 1U) == 0) continue;
    const auto split = divide(index, layout.shape[d]);
    for (int k = 0; k < 3; ++k) position.offsets[k] += split.remainder * layout.strides[k][d];
    index = split.value;
  }
  return position;
}

/// Makes updates of one element in row-major order: a thread takes all that may be of the same
/// element.
template <class Body>
__global__ void __launch_bounds__(threads_per_block)
    ordered_kernel(const Body body, const __grid_constant__ scatter_work work,
                   std::int64_t elements, std::int64_t updates_of_element, const void* indices) {
  for_each_of_thread(elements, [&](std::int64_t i) {
    const auto first = position_within(work.updates, ~work.collisions, i);
    for (std::int64_t k = 0; k < updates_of_element; ++k) {
      const auto position = position_within(work.updates, work.collisions, k);
      body(first.offsets[0] +
               work.indexed.place(indices, first.offsets[2] + position.offsets[2], work.errors),
           first.offsets[1] + position.offsets[1]);
    }
  });
}

struct scatter_launcher {
  const void* indices;
  cudaStream_t stream;

  void copy(const map_layout<2>& layout, int size, const scatter_addresses& addresses) const {
    (void)visiting::with_bits(size, [&](auto bits) {
      using element = decltype(bits);
      copy_kernel<<<blocks_for(layout.count), threads_per_block, 0, stream>>>(
          layout, static_cast<const element*>(addresses.x), static_cast<element*>(addresses.y));
      return 0;
    });
  }
  template <class Body>
  int update(const scatter_work& work, const Body& body) const {
    update_kernel<<<blocks_for(work.updates.count), threads_per_block, 0, stream>>>(body, work,
                                                                                    indices);
    return 0;
  }
  template <class Body>
  int update_in_order(const scatter_work& work, const Body& body) const {
    std::int64_t collisions = 1;
    for (int d = 0; d < work.updates.rank; ++d) {
      if (((work.collisions >> d) & 1U) != 0) collisions *= work.updates.shape[d];
    }
    const std::int64_t elements = work.updates.count / collisions;
    ordered_kernel<<<blocks_for(elements), threads_per_block, 0, stream>>>(body, work, elements,
                                                                           collisions, indices);
    return 0;
  }
};

/// Loads a kernel, unless another one could not be loaded.
template <class Kernel>
void load_kernel(Kernel* kernel, cudaError_t& status) {
  cudaFuncAttributes attributes;
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
}

}  // namespace

int load_scatter() {
  cudaError_t status = cudaSuccess;
  for (const int size : {1, 2, 4, 8, 16}) {
    (void)visiting::with_bits(size, [&](auto bits) {
      using element = decltype(bits);
      load_kernel(copy_kernel<element>, status);
      load_kernel(update_kernel<set_body<element>>, status);
      load_kernel(ordered_kernel<set_body<element>>, status);
      return 0;
    });
  }
  for (const auto type :
       {storage::i64, storage::u64, storage::f32, storage::f64, storage::c64, storage::c128}) {
    (void)visiting::with_compute_type(type, [&](auto number) {
      load_kernel(update_kernel<atomic_body<decltype(number)>>, status);
      load_kernel(ordered_kernel<combine_body<decltype(number)>>, status);
      return 0;
    });
  }
  return status;
}

int launch_scatter(scatter_work work, const scatter_addresses& addresses, native_stream* stream) {
  const scatter_launcher launcher{addresses.indices, reinterpret_cast<cudaStream_t>(stream)};
  const int copied_size = widen_copy(work, addresses);
  launcher.copy(work.copy, copied_size, addresses);
  if (work.updates.count == 0) return cudaGetLastError();
  const auto type = work.updates.types[0];
  if (work.combine == scatter_combine::set) {
    const int size = widen_updates(work, addresses);
    (void)visiting::with_bits(size, [&](auto bits) {
      const set_body<decltype(bits)> body{addresses.y, addresses.updates};
      return work.in_order ? launcher.update_in_order(work, body) : launcher.update(work, body);
    });
  } else {
    (void)visiting::with_compute_type(type, [&](auto number) {
      using compute = decltype(number);
      if (work.in_order) {
        return launcher.update_in_order(
            work, combine_body<compute>{addresses.y, addresses.updates, type, work.combine});
      }
      return launcher.update(
          work, atomic_body<compute>{addresses.y, addresses.updates, type, work.combine});
    });
  }
  return cudaGetLastError();
}

}  // namespace sluice::operations
