// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/bias_activation.hpp"
#include "operations/elementwise/activations.hpp"
#include "operations/elementwise/vectors.cuh"

#include <algorithm>
#include <cstdint>

namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = 256;
// Beyond this the loops in the kernels take the rest.
constexpr std::size_t max_blocks = 16384;

template <class Element, class Index>
struct arguments {
  Element* y;
  const Element* bias;
  const Element* residual;
  Index count;
  Index image;
  Index gap;           // between the end of an image and the next one
  Index residual_gap;  // the same of the residual
  Index channels;
  Index channel_stride;
  bool overwrites;
  activation function;
};

/// One element at a time.
template <class Element, class Index>
__global__ void bias_activation_kernel(arguments<Element, Index> a) {
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count;
       i += step) {
    const Index offset = a.gap == 0 ? i : i + i / a.image * a.gap;
    float value = a.overwrites ? 0.0f : to_f32(a.y[offset]);
    if (a.bias != nullptr) value += to_f32(a.bias[i / a.channel_stride % a.channels]);
    if (a.residual != nullptr) {
      value += to_f32(a.residual[a.residual_gap == 0 ? i : i + i / a.image * a.residual_gap]);
    }
    with_function(a.function, [&](auto unary) {
      value = apply(unary.value, value, float(activation_alpha), float(activation_beta));
    });
    put_f32(a.y[offset], value);
  }
}

/// values[j] += the element j of the vector.
template <class Element>
__device__ void add_vector(const Element* elements, float (&values)[word_vector<Element>::size]) {
  const auto vector = *reinterpret_cast<const word_vector<Element>*>(elements);
#pragma unroll
  for (int j = 0; j < word_vector<Element>::size; ++j) values[j] += vector[j];
}

/// One vector at a time. All numbers of the arguments but `channels` are multiples of its size, or
/// the stride of the channels is 1 and the channels are such a multiple. All addresses are aligned.
template <class Element, class Index>
__global__ void bias_activation_vectors_kernel(arguments<Element, Index> a) {
  constexpr int size = word_vector<Element>::size;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x * size;
  for (Index i = (static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x) * size; i < a.count;
       i += step) {
    const Index offset = a.gap == 0 ? i : i + i / a.image * a.gap;
    float values[size]{};
    if (!a.overwrites) add_vector(a.y + offset, values);
    if (a.bias != nullptr) {
      if (a.channel_stride == 1) {
        add_vector(a.bias + i % a.channels, values);
      } else {
        const float bias = to_f32(a.bias[i / a.channel_stride % a.channels]);
#pragma unroll
        for (int j = 0; j < size; ++j) values[j] += bias;
      }
    }
    if (a.residual != nullptr) {
      add_vector(a.residual + (a.residual_gap == 0 ? i : i + i / a.image * a.residual_gap), values);
    }
    with_function(a.function, [&](auto unary) {
#pragma unroll
      for (int j = 0; j < size; ++j) {
        values[j] = apply(unary.value, values[j], float(activation_alpha), float(activation_beta));
      }
    });
    *reinterpret_cast<word_vector<Element>*>(a.y + offset) = rounded_vector<Element>(values);
  }
}

template <class Element, class Index>
[[nodiscard]] bool has_vectors(const arguments<Element, Index>& a) {
  constexpr unsigned size = word_vector<Element>::size;
  const auto is_aligned = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % sizeof(word_vector<Element>) == 0;
  };
  const bool one_channel = a.channel_stride % size == 0;
  const bool neighbours = a.channel_stride == 1 && a.channels % size == 0;
  return (one_channel || neighbours) && a.count % size == 0 && a.gap % size == 0 &&
         a.residual_gap % size == 0 && is_aligned(a.y) && is_aligned(a.residual) &&
         (one_channel || is_aligned(a.bias));
}

template <class Element, class Index>
void launch(const bias_activation& o, cudaStream_t stream) {
  const auto index = [](std::size_t value) {
    return static_cast<Index>(value);
  };
  const bool one_image = o.count == o.image;
  const arguments<Element, Index> a{
      static_cast<Element*>(o.y),
      static_cast<const Element*>(o.bias),
      static_cast<const Element*>(o.residual),
      index(o.count),
      index(o.image),
      index(one_image ? 0 : o.distance - o.image),
      index(one_image || o.residual == nullptr ? 0 : o.residual_distance - o.image),
      index(o.channels),
      index(o.channel_stride),
      o.overwrites,
      o.function};
  const bool vectors = has_vectors(a);
  const std::size_t elements = vectors ? word_vector<Element>::size : 1;
  const std::size_t threads = (o.count + elements - 1) / elements;
  const auto blocks = static_cast<unsigned>(
      std::min<std::size_t>((threads + threads_per_block - 1) / threads_per_block, max_blocks));
  if (vectors) {
    bias_activation_vectors_kernel<Element, Index><<<blocks, threads_per_block, 0, stream>>>(a);
  } else {
    bias_activation_kernel<Element, Index><<<blocks, threads_per_block, 0, stream>>>(a);
  }
}

/// Calls `run` with an element of a type.
template <class Run>
int with_element(storage type, const Run& run) {
  switch (type) {
    case storage::f16:
      return run(__half{});
    case storage::bf16:
      return run(__nv_bfloat16{});
    default:
      return run(float{});
  }
}

}  // namespace

int load_bias_activation_kernels() noexcept {
  int status = cudaSuccess;
  const auto load = [&](auto* kernel) {
    cudaFuncAttributes attributes;
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  };
  for (const auto each : {storage::f32, storage::f16, storage::bf16}) {
    with_element(each, [&](auto element) -> int {
      using type = decltype(element);
      load(bias_activation_kernel<type, unsigned>);
      load(bias_activation_kernel<type, unsigned long long>);
      load(bias_activation_vectors_kernel<type, unsigned>);
      load(bias_activation_vectors_kernel<type, unsigned long long>);
      return status;
    });
  }
  return status;
}

int launch_bias_activation(const bias_activation& operation, native_stream* stream) noexcept {
  if (operation.count == 0) return cudaSuccess;
  const auto extent =
      operation.count / operation.image * std::max(operation.distance, operation.residual_distance);
  // 32-bit divisions are several times as fast; below this bound the last step does not overflow.
  constexpr std::size_t small = std::size_t{1} << 31;
  const bool is_small = operation.count <= small && extent <= small;
  auto* const queue = reinterpret_cast<cudaStream_t>(stream);
  return with_element(operation.type, [&](auto element) -> int {
    using type = decltype(element);
    if (is_small) {
      launch<type, unsigned>(operation, queue);
    } else {
      launch<type, unsigned long long>(operation, queue);
    }
    return cudaGetLastError();
  });
}

}  // namespace sluice::operations
