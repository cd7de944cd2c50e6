// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Between a C++17 file that nvcc compiles and the rest: no CUDA type, and nothing of C++20. The
// functions take a stream of the current device, return a `cudaError_t`, want a count above 0, and
// are instantiated for float and double.

namespace sluice {
struct native_stream;
}

namespace sluice::actors {

template <class T>
struct windowed_frame;
template <class T>
struct power_to_decibel;

/// Loads all kernels, so that no launch has to.
[[nodiscard]] int load_elementwise_kernels();

/// out[f][j] = element(f, j), row by row.
template <class T>
[[nodiscard]] int launch_frame(const windowed_frame<T>& element, std::size_t frames,
                               std::size_t n_fft, T* out, native_stream* stream);

/// `in` has 2 * count numbers.
template <class T>
[[nodiscard]] int launch_power(std::size_t count, const T* in, T* out, native_stream* stream);

/// The bytes of scratch that `launch_maximum` needs, whatever the count and the type.
inline constexpr std::size_t maximum_scratch_bytes = 1024 * sizeof(double);

template <class T>
[[nodiscard]] int launch_maximum(std::size_t count, const T* in, T* out, void* scratch,
                                 native_stream* stream);

template <class T>
[[nodiscard]] int launch_power_to_decibel(const power_to_decibel<T>& decibel, std::size_t count,
                                          const T* in, const T* reference, T* out,
                                          native_stream* stream);

}  // namespace sluice::actors
