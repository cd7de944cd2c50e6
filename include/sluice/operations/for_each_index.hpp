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

/// Queues a kernel that calls `body(i)` for each i below `count`, in any order, on a stream of the
/// current CUDA device. Does not synchronize. What `body` points to must stay until the kernel has
/// run.
///
/// The function is defined where nvcc compiles. A `.cu` file instantiates it for the rest of a
/// program:
///
///     template void sluice::launch_for_each_index(std::size_t, const saxpy_body&,
///                                                 sluice::native_stream*);
///
/// @throws std::runtime_error if the launch fails
template <class Body>
void launch_for_each_index(std::size_t count, const Body& body, native_stream* stream);

#ifdef __CUDACC__
namespace detail {
constexpr std::size_t threads_of_for_each_index = 256;

template <class Body>
__global__ void __launch_bounds__(threads_of_for_each_index)
    for_each_index_kernel(std::size_t count, Body body) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    body(i);
  }
}
}  // namespace detail

template <class Body>
void launch_for_each_index(std::size_t count, const Body& body, native_stream* stream) {
  if (count == 0) return;
  constexpr auto threads = detail::threads_of_for_each_index;
  constexpr std::size_t max_blocks = 16384;  // the loop in the kernel takes the rest
  const auto blocks = std::min((count - 1) / threads + 1, max_blocks);
  detail::for_each_index_kernel<<<static_cast<unsigned>(blocks), threads, 0,
                                  reinterpret_cast<cudaStream_t>(stream)>>>(count, body);
  const auto status = cudaGetLastError();
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}
#endif

}  // namespace sluice
