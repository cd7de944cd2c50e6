// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/elementwise_types.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <cstddef>
#include <memory>

namespace sluice::actors {

/// Elementwise operations on one stream. `type` is f32 or f64: that of all numbers, and of both
/// parts of complex ones. Every function queues its work on the library's stream and returns at
/// once; it allocates nothing; operands stay alive until the work has finished and are aligned to
/// one element. Inputs and outputs do not overlap unless it says so. Belongs to one lane; not
/// thread-safe. Destroying it does not wait.
///
/// All throw error `invalid_argument` (another type, or what they name), `library_failure`,
/// `device_lost`.
class elementwise_library {
 public:
  elementwise_library() = default;
  elementwise_library(const elementwise_library&) = delete;
  elementwise_library& operator=(const elementwise_library&) = delete;
  virtual ~elementwise_library() = default;

  /// out[f][j] = window[j] * signal[f * hop + j - n_fft/2], 0 outside the signal: `frame_count`
  /// rows of n_fft elements. `window` has n_fft elements; null is a window of ones.
  /// @throws error also as `frame_count`
  virtual void frame(element_type type, const frame_layout& layout, const void* signal,
                     const void* window, void* out) = 0;

  /// out[i] = |in[i]|², for `count` complex elements.
  virtual void power(element_type type, std::size_t count, const void* in, void* out) = 0;

  /// out[0] = the largest of `count` elements; NaN if one is NaN. The same bits on every device.
  /// @throws error also `invalid_argument`: count is 0
  virtual void maximum(element_type type, std::size_t count, const void* in, void* out) = 0;

  /// out[i] = power in[i] in decibels relative to reference[0], which is on the device; see
  /// `decibel_options`. `out` may be `in`. NaN stays NaN.
  /// @throws error also `invalid_argument`: an option out of its range
  virtual void power_to_decibel(element_type type, std::size_t count, const void* in,
                                const void* reference, const decibel_options& options,
                                void* out) = 0;
};

/// The implementation for the stream's device. `runtime` and the stream must outlive it. Kernels
/// are loaded and scratch memory is allocated here.
/// @throws error `unsupported`, `out_of_memory`, `over_budget`, `library_failure`, `device_lost`
[[nodiscard]] std::unique_ptr<elementwise_library> make_elementwise_library(device_runtime& runtime,
                                                                            stream_ref stream);

}  // namespace sluice::actors
