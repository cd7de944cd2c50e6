// SPDX-License-Identifier: Apache-2.0
#include "actors/elementwise/elementwise_kernels.hpp"
#include "actors/elementwise/functors.hpp"

#include <cuda_runtime.h>

namespace sluice::actors {

namespace {

constexpr unsigned threads_per_block = 256;
constexpr std::size_t max_partial_maxima = maximum_scratch_bytes / sizeof(double);

[[nodiscard]] unsigned blocks_for(std::size_t count, std::size_t most) {
  const std::size_t wanted = (count + threads_per_block - 1) / threads_per_block;
  return static_cast<unsigned>(wanted < most ? wanted : most);
}

// Beyond this the loops in the kernels take the rest.
constexpr std::size_t max_blocks = 8192;

[[nodiscard]] __device__ std::size_t first_element() {
  return static_cast<std::size_t>(blockIdx.x) * threads_per_block + threadIdx.x;
}
[[nodiscard]] __device__ std::size_t stride_of_grid() {
  return static_cast<std::size_t>(gridDim.x) * threads_per_block;
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    frame_kernel(windowed_frame<T> element, std::size_t frames, std::size_t n_fft, T* out) {
  for (std::size_t f = blockIdx.y; f < frames; f += gridDim.y) {
    for (std::size_t j = first_element(); j < n_fft; j += stride_of_grid()) {
      out[f * n_fft + j] = element(f, j);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    power_kernel(std::size_t count, const T* in, T* out) {
  const squared_magnitude<T> magnitude;
  for (std::size_t i = first_element(); i < count; i += stride_of_grid()) {
    out[i] = magnitude(in[2 * i], in[2 * i + 1]);
  }
}

// Each block leaves the largest of its elements in out[block].
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    maximum_kernel(std::size_t count, const T* in, T* out) {
  __shared__ T partial[threads_per_block];
  const larger<T> of;
  // A block without an element of its own repeats the first one, which changes no maximum.
  const std::size_t first = first_element();
  T largest = of(in[first < count ? first : 0], in[first < count ? first : 0]);
  for (std::size_t i = first + stride_of_grid(); i < count; i += stride_of_grid()) {
    largest = of(largest, in[i]);
  }
  partial[threadIdx.x] = largest;
  __syncthreads();
  for (unsigned half = threads_per_block / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] = of(partial[threadIdx.x], partial[threadIdx.x + half]);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    decibel_kernel(power_to_decibel<T> decibel, std::size_t count, const T* in, const T* reference,
                   T* out) {
  const T level = decibel.reference_level(*reference);
  for (std::size_t i = first_element(); i < count; i += stride_of_grid()) {
    out[i] = decibel(in[i], level);
  }
}

template <class T>
[[nodiscard]] cudaError_t load() {
  cudaFuncAttributes attributes;
  const void* const kernels[] = {reinterpret_cast<const void*>(frame_kernel<T>),
                                 reinterpret_cast<const void*>(power_kernel<T>),
                                 reinterpret_cast<const void*>(maximum_kernel<T>),
                                 reinterpret_cast<const void*>(decibel_kernel<T>)};
  for (const void* const kernel : kernels) {
    const cudaError_t result = cudaFuncGetAttributes(&attributes, kernel);
    if (result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

[[nodiscard]] cudaStream_t cuda(native_stream* stream) {
  return reinterpret_cast<cudaStream_t>(stream);
}

}  // namespace

int load_elementwise_kernels() {
  const cudaError_t result = load<float>();
  return result != cudaSuccess ? result : load<double>();
}

template <class T>
int launch_frame(const windowed_frame<T>& element, std::size_t frames, std::size_t n_fft, T* out,
                 native_stream* stream) {
  const dim3 blocks(blocks_for(n_fft, max_blocks),
                    static_cast<unsigned>(frames < 32768 ? frames : 32768));
  frame_kernel<<<blocks, threads_per_block, 0, cuda(stream)>>>(element, frames, n_fft, out);
  return cudaGetLastError();
}

template <class T>
int launch_power(std::size_t count, const T* in, T* out, native_stream* stream) {
  power_kernel<<<blocks_for(count, max_blocks), threads_per_block, 0, cuda(stream)>>>(count, in,
                                                                                      out);
  return cudaGetLastError();
}

template <class T>
int launch_maximum(std::size_t count, const T* in, T* out, void* scratch, native_stream* stream) {
  const unsigned blocks = blocks_for(count, max_partial_maxima);
  if (blocks == 1) {
    maximum_kernel<<<1, threads_per_block, 0, cuda(stream)>>>(count, in, out);
    return cudaGetLastError();
  }
  T* const partial = static_cast<T*>(scratch);
  maximum_kernel<<<blocks, threads_per_block, 0, cuda(stream)>>>(count, in, partial);
  const cudaError_t result = cudaGetLastError();
  if (result != cudaSuccess) return result;
  maximum_kernel<<<1, threads_per_block, 0, cuda(stream)>>>(std::size_t{blocks},
                                                            static_cast<const T*>(partial), out);
  return cudaGetLastError();
}

template <class T>
int launch_power_to_decibel(const power_to_decibel<T>& decibel, std::size_t count, const T* in,
                            const T* reference, T* out, native_stream* stream) {
  decibel_kernel<<<blocks_for(count, max_blocks), threads_per_block, 0, cuda(stream)>>>(
      decibel, count, in, reference, out);
  return cudaGetLastError();
}

template int launch_frame(const windowed_frame<float>&, std::size_t, std::size_t, float*,
                          native_stream*);
template int launch_frame(const windowed_frame<double>&, std::size_t, std::size_t, double*,
                          native_stream*);
template int launch_power(std::size_t, const float*, float*, native_stream*);
template int launch_power(std::size_t, const double*, double*, native_stream*);
template int launch_maximum(std::size_t, const float*, float*, void*, native_stream*);
template int launch_maximum(std::size_t, const double*, double*, void*, native_stream*);
template int launch_power_to_decibel(const power_to_decibel<float>&, std::size_t, const float*,
                                     const float*, float*, native_stream*);
template int launch_power_to_decibel(const power_to_decibel<double>&, std::size_t, const double*,
                                     const double*, double*, native_stream*);

}  // namespace sluice::actors
