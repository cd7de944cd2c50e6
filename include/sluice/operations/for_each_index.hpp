// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compiles as C++17, because `.cu` files include it.

#include <sluice/host_device_code.hpp>

#include <cstddef>
#ifdef __CUDACC__
#include <algorithm>
#include <stdexcept>
#endif

namespace sluice {

struct native_stream;

/// Calls `body(i)` for each i below `count`, one after the other.
template <class Body>
void for_each_index(std::size_t count, const Body& body) {
  for (std::size_t i = 0; i < count; ++i) body(i);
}

/// The kernel that calls `body(i)` for each i below a number, in any order.
///
/// The functions are defined where nvcc compiles. A `.cu` file instantiates them for the rest of a
/// program:
///
///     template struct sluice::index_kernel<saxpy_body>;
template <class Body>
struct index_kernel {
  /// Loads the kernel, which may wait for all streams of the current device.
  /// @throws std::runtime_error if it cannot be loaded
  static void load();
  /// Queues the kernel on a stream of the current device. Does not synchronize. What `body` points
  /// to must stay until the kernel has run.
  /// @throws std::runtime_error if the launch fails
  static void launch(std::size_t count, const Body& body, native_stream* stream);
};

#ifdef __CUDACC__
namespace detail {
constexpr std::size_t threads_of_index_kernel = 256;

template <class Body>
__global__ void __launch_bounds__(threads_of_index_kernel)
    run_for_each_index(std::size_t count, Body body) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    body(i);
  }
}

inline void check_index_kernel(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}
}  // namespace detail

template <class Body>
void index_kernel<Body>::load() {
  cudaFuncAttributes attributes;
  detail::check_index_kernel(cudaFuncGetAttributes(&attributes, detail::run_for_each_index<Body>));
}

template <class Body>
void index_kernel<Body>::launch(std::size_t count, const Body& body, native_stream* stream) {
  if (count == 0) return;
  constexpr auto threads = detail::threads_of_index_kernel;
  constexpr std::size_t max_blocks = 16384;  // the loop in the kernel takes the rest
  const auto blocks = std::min((count - 1) / threads + 1, max_blocks);
  detail::run_for_each_index<<<static_cast<unsigned>(blocks), threads, 0,
                               reinterpret_cast<cudaStream_t>(stream)>>>(count, body);
  detail::check_index_kernel(cudaGetLastError());
}
#endif

}  // namespace sluice
