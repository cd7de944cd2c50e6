// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/launch_map.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/strided_map.hpp"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

// One kernel for all maps, and faster ones for copies and for f32, f16 and bf16 without gaps.
namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = 256;
// Beyond this the loops in the kernels take the rest.
constexpr std::int64_t max_blocks = 16384;

[[nodiscard]] inline unsigned blocks_for(std::int64_t threads) {
  const std::int64_t block_count = (threads + threads_per_block - 1) / threads_per_block;
  return static_cast<unsigned>(block_count < max_blocks ? block_count : max_blocks);
}

/// How the indices of a map are distributed: a thread computes `steps` elements along the last
/// dimension, as many threads apart as a block has.
struct map_segments {
  std::int64_t length;  ///< of a row of indices in which the elements of a thread lie
  std::int64_t count;   ///< of segments in a row
  // Without padding, whose bytes would differ between two captures of a kernel.
  std::int64_t steps;
};
/// Whether positions are sums of multiples of indices.
template <class Layout>
inline constexpr bool is_linear = false;
template <int Operands>
inline constexpr bool is_linear<map_layout<Operands>> = true;

/// Several steps share the computation of a position, if rows are long and there are many.
template <class Layout>
[[nodiscard]] map_segments segments_of(const Layout& layout) {
  if constexpr (is_linear<Layout>) {
    constexpr std::int64_t steps = 4;
    constexpr std::int64_t length = steps * threads_per_block;
    constexpr std::int64_t enough = 1 << 20;  // for all threads of a GPU to have several
    const std::int64_t row = layout.shape[layout.rank - 1];
    if (row >= length && layout.count >= enough) {
      return {row, (row + length - 1) / length, steps};
    }
  }
  return {layout.count, (layout.count + threads_per_block - 1) / threads_per_block, 1};
}

// The parameters stay in constant memory, where indexing them costs no copy.
template <class Body, class Layout>
__global__ void __launch_bounds__(threads_per_block)
    map_kernel(const __grid_constant__ Body body, const __grid_constant__ Layout layout,
               const map_segments segments) {
  const std::int64_t all = divide(layout.count, segments.length).value * segments.count;
  for (std::int64_t segment = blockIdx.x; segment < all; segment += gridDim.x) {
    const auto split = divide(segment, segments.count);
    std::int64_t index =
        split.remainder * segments.steps * threads_per_block + static_cast<int>(threadIdx.x);
    if (index >= segments.length) continue;
    auto position = position_of(layout, split.value * segments.length + index);
    if constexpr (!is_linear<Layout>) {
      body(layout, position);
    } else {
#pragma unroll 1
      for (std::int64_t step = 1;; ++step) {
        body(layout, position);
        index += threads_per_block;
        if (step == segments.steps || index >= segments.length) break;
#pragma unroll
        for (int k = 0; k < static_cast<int>(sizeof position.offsets / sizeof(std::int64_t)); ++k) {
          position.offsets[k] += threads_per_block * layout.strides[k][layout.rank - 1];
        }
      }
    }
  }
}

__device__ inline void put_f32(std::uint8_t& target, float value) {
  target = value != 0 ? 1 : 0;
}

/// Whether `flat_kernel` computes a function with results of type `Result`: only predicates have
/// boolean results.
template <class Result, class Function>
[[nodiscard]] SLUICE_HOST_DEVICE constexpr bool has_result(Function f) {
  return is_predicate(f) == std::is_same_v<Result, std::uint8_t>;
}

/// Maps in f32 of elements without gaps: `function` computes `Count` results at once.
///@{
template <class Result, int Count>
__device__ inline void compute_elements(const binary_map<float>& function,
                                        const float (&inputs)[2][Count], float (&y)[Count]) {
  with_constant(function.function, [&](auto f) {
    if constexpr (has_result<Result>(f.value)) {
#pragma unroll
      for (int i = 0; i < Count; ++i) y[i] = apply(f.value, inputs[0][i], inputs[1][i]);
    }
  });
}
template <class Result, int Count>
__device__ inline void compute_elements(const unary_map<float>& function,
                                        const float (&inputs)[1][Count], float (&y)[Count]) {
  with_constant(function.function, [&](auto f) {
    if constexpr (has_result<Result>(f.value)) {
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        y[i] = apply(f.value, inputs[0][i], function.alpha, function.beta);
      }
    }
  });
}
///@}

/// Fills the block of an input that a number stands for.
///@{
template <int Count>
__device__ inline void fill_missing(const binary_map<float>& function, float (&x)[Count]) {
#pragma unroll
  for (int j = 0; j < Count; ++j) x[j] = function.number;
}
template <int Count>
__device__ inline void fill_missing(const unary_map<float>&, float (&)[Count]) {}
///@}

/// Writes results as vector `i` of a tensor.
template <class Result, int Size>
__device__ inline void put_vector(Result* y, std::int64_t i, const float (&results)[Size]) {
  if constexpr (std::is_same_v<Result, std::uint8_t>) {
    element_vector<Result, Size> vector;
#pragma unroll
    for (int j = 0; j < Size; ++j) put_f32(vector.elements[j], results[j]);
    reinterpret_cast<element_vector<Result, Size>*>(y)[i] = vector;
  } else {
    reinterpret_cast<word_vector<Result>*>(y)[i] = rounded_vector<Result>(results);
  }
}

/// The threads that a multiprocessor has.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
constexpr int resident_threads = 2048;
#elif __CUDA_ARCH__ < 800
constexpr int resident_threads = 1024;
#else
constexpr int resident_threads = 1536;  // some have more
#endif
/// Blocks of `flat_kernel` that a multiprocessor has at least. With one input, all of its threads
/// hide the latency of memory, and few functions need more registers than that leaves.
template <int Inputs>
inline constexpr int resident_blocks = Inputs == 1 ? resident_threads / threads_per_block : 1;

/// A map in f32 of elements without gaps, 16 bytes of each input at a time. All addresses are
/// aligned to 16 bytes. An input that a number stands for has none.
template <class Element, class Result, int Inputs, class Function>
__global__ void __launch_bounds__(threads_per_block, resident_blocks<Inputs>)
    flat_kernel(const __grid_constant__ Function function, std::int64_t count,
                const __grid_constant__ map_addresses addresses) {
  constexpr int size = 16 / sizeof(Element);
  auto* const y = static_cast<Result*>(addresses.y);
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = first; i < count / size; i += stride) {
    float inputs[Inputs][size];
#pragma unroll
    for (int k = 0; k < Inputs; ++k) {
      if (Inputs > 1 && addresses.inputs[k] == nullptr) {
        fill_missing(function, inputs[k]);
        continue;
      }
      const auto vector = static_cast<const word_vector<Element>*>(addresses.inputs[k])[i];
#pragma unroll
      for (int j = 0; j < size; ++j) inputs[k][j] = vector[j];
    }
    float results[size];
    compute_elements<Result>(function, inputs, results);
    put_vector(y, i, results);
  }
  const std::int64_t rest = count / size * size + first;
  if (rest < count) {
    float inputs[Inputs][1];
    for (int k = 0; k < Inputs; ++k) {
      if (Inputs > 1 && addresses.inputs[k] == nullptr) {
        fill_missing(function, inputs[k]);
      } else {
        inputs[k][0] = to_f32(static_cast<const Element*>(addresses.inputs[k])[rest]);
      }
    }
    float results[1];
    compute_elements<Result>(function, inputs, results);
    put_f32(y[rest], results[0]);
  }
}

/// Copies elements without gaps, 16 bytes at a time. The addresses are aligned to 16 bytes.
template <class Bits>
__global__ void __launch_bounds__(threads_per_block)
    flat_copy_kernel(std::int64_t count, const Bits* x, Bits* y) {
  constexpr int size = 16 / sizeof(Bits);
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = first; i < count / size; i += stride) {
    reinterpret_cast<uint4*>(y)[i] = reinterpret_cast<const uint4*>(x)[i];
  }
  const std::int64_t rest = count / size * size + first;
  if (rest < count) y[rest] = x[rest];
}

/// The number of inputs of a map that `flat_kernel` computes; 0 of others.
template <class Body>
inline constexpr int flat_inputs = 0;
template <>
inline constexpr int flat_inputs<map_body<binary_map<float>, 3>> = 2;
template <>
inline constexpr int flat_inputs<map_body<unary_map<float>, 2>> = 1;

/// The elements that `flat_copy_kernel` copies for a map; void of others.
template <class Body>
struct copied_by {
  using type = void;
};
template <class Bits>
struct copied_by<map_body<copied_bits<Bits>, 2>> {
  using type = Bits;
};

/// Whether the elements of all operands have no gaps, and all addresses are aligned to 16 bytes. An
/// input without an address, for which a number stands, has no elements.
template <int Operands>
[[nodiscard]] bool is_flat(const map_layout<Operands>& layout, const map_addresses& addresses) {
  if (layout.rank != 1) return false;
  for (int k = 0; k < Operands; ++k) {
    const void* const address = k == 0 ? addresses.y : addresses.inputs[k - 1];
    if (address == nullptr) continue;
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) return false;
    if (layout.strides[k][0] != 1 && layout.shape[0] != 1) return false;
  }
  return true;
}

/// Calls `run` with an element of the type of the inputs and one of the type of the results, if
/// `flat_kernel` computes such maps.
template <class Run>
[[nodiscard]] bool with_flat_elements(storage input, storage result, const Run& run) {
  const auto with_result = [&](auto element) {
    if (result == input) {
      run(element, element);
    } else if (result == storage::boolean) {
      run(element, std::uint8_t{});
    } else {
      return false;
    }
    return true;
  };
  if (input == storage::f32) return with_result(float{});
  if (input == storage::f16) return with_result(__half{});
  return input == storage::bf16 && with_result(__nv_bfloat16{});
}

struct map_launcher {
  cudaStream_t stream;

  template <class Body, class Layout>
  int operator()(const Body& body, const Layout& layout) const {
    if constexpr (flat_inputs<Body> != 0) {
      const auto launch = [&](auto element, auto result) {
        constexpr int size = 16 / sizeof element;
        flat_kernel<decltype(element), decltype(result), flat_inputs<Body>>
            <<<blocks_for((layout.count + size - 1) / size), threads_per_block, 0, stream>>>(
                body.function, layout.count, body.addresses);
      };
      if (is_flat(layout, body.addresses) &&
          with_flat_elements(layout.types[1], layout.types[0], launch)) {
        return cudaGetLastError();
      }
    } else if constexpr (!std::is_void_v<typename copied_by<Body>::type>) {
      using bits = typename copied_by<Body>::type;
      if (is_flat(layout, body.addresses)) {
        constexpr int size = 16 / sizeof(bits);
        flat_copy_kernel<<<blocks_for((layout.count + size - 1) / size), threads_per_block, 0,
                           stream>>>(layout.count,
                                     static_cast<const bits*>(body.addresses.inputs[0]),
                                     static_cast<bits*>(body.addresses.y));
        return cudaGetLastError();
      }
    }
    const auto segments = segments_of(layout);
    const auto all = layout.count / segments.length * segments.count;
    map_kernel<<<static_cast<unsigned>(all < max_blocks ? all : max_blocks), threads_per_block, 0,
                 stream>>>(body, layout, segments);
    return cudaGetLastError();
  }
};

struct map_loader {
  template <class Body, class Layout>
  int operator()(const Body&, const Layout&) const {
    cudaFuncAttributes attributes;
    cudaError_t status = cudaSuccess;
    if constexpr (flat_inputs<Body> != 0) {
      const auto load = [&](auto element, auto result) {
        if (status == cudaSuccess) {
          status = cudaFuncGetAttributes(
              &attributes, flat_kernel<decltype(element), decltype(result), flat_inputs<Body>,
                                       typename Body::function_type>);
        }
      };
      for (const auto type : {storage::f32, storage::f16, storage::bf16}) {
        (void)with_flat_elements(type, type, load);
        (void)with_flat_elements(type, storage::boolean, load);
      }
    } else if constexpr (!std::is_void_v<typename copied_by<Body>::type>) {
      status = cudaFuncGetAttributes(&attributes, flat_copy_kernel<typename copied_by<Body>::type>);
    }
    if (status != cudaSuccess) return status;
    return cudaFuncGetAttributes(&attributes, map_kernel<Body, Layout>);
  }
};

}  // namespace

template <class Call>
int launch_map(const Call& call, const map_addresses& addresses, native_stream* stream) {
  return visit(call, addresses, map_launcher{reinterpret_cast<cudaStream_t>(stream)});
}

template <class Call>
int load_map() {
  int status = 0;
  for_each_variant<Call>([&](const Call& call) {
    if (status == 0) status = visit(call, map_addresses{}, map_loader{});
  });
  return status;
}

}  // namespace sluice::operations
