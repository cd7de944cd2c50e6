// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/bias_activation.hpp"
#include "operations/elementwise/activations.hpp"
#include "operations/elementwise/vectors.cuh"

#include <algorithm>

namespace sluice::operations {
namespace {

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

template <class Element, class Index>
void launch(const bias_activation& o, unsigned blocks, unsigned threads, cudaStream_t stream) {
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
  bias_activation_kernel<Element, Index><<<blocks, threads, 0, stream>>>(a);
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
  for (const auto each : {storage::f32, storage::f16, storage::bf16}) {
    if (status != cudaSuccess) break;
    status = with_element(each, [](auto element) -> int {
      using type = decltype(element);
      cudaFuncAttributes attributes;
      const auto result =
          cudaFuncGetAttributes(&attributes, bias_activation_kernel<type, unsigned>);
      return result != cudaSuccess
                 ? result
                 : cudaFuncGetAttributes(&attributes,
                                         bias_activation_kernel<type, unsigned long long>);
    });
  }
  return status;
}

int launch_bias_activation(const bias_activation& operation, native_stream* stream) noexcept {
  if (operation.count == 0) return cudaSuccess;
  constexpr unsigned threads = 256;
  const auto blocks =
      static_cast<unsigned>(std::min<std::size_t>((operation.count + threads - 1) / threads, 8192));
  const auto extent =
      operation.count / operation.image * std::max(operation.distance, operation.residual_distance);
  // 32-bit divisions are several times as fast; below this bound the last step does not overflow.
  constexpr std::size_t small = std::size_t{1} << 31;
  const bool is_small = operation.count <= small && extent <= small;
  auto* const queue = reinterpret_cast<cudaStream_t>(stream);
  return with_element(operation.type, [&](auto element) -> int {
    using type = decltype(element);
    if (is_small) {
      launch<type, unsigned>(operation, blocks, threads, queue);
    } else {
      launch<type, unsigned long long>(operation, blocks, threads, queue);
    }
    return cudaGetLastError();
  });
}

}  // namespace sluice::operations
