// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/functors.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cstdint>

// The maps of short-time Fourier transforms; see map_calls.hpp. Kernels include this header, so it
// compiles as C++17.
namespace sluice::operations {

/// y = |x|². Operands: y of type f32 or f64, x of the complex type.
struct power_call {
  map_layout<2> layout{};
};

/// y = x in decibels relative to a reference. Operands: y, x, reference, of equal real types.
struct decibel_call {
  map_layout<3> layout{};
  double amin = 0;
  double top_db = 0;
};

/// y[f, j] = window[j] · signal[f · hop + j - padding]. Operands: y, the first sample of a signal,
/// f and j. The latter two are no memory: their positions are the indices.
struct frames_call {
  map_layout<4> layout{};
  std::uint64_t samples = 0;
  std::uint64_t hop = 1;
  std::uint64_t padding = 0;
  std::int64_t signal_stride = 1;
  std::int64_t window_stride = 1;
};

/// Computes the elements of windowed frames of type `T`.
template <class T>
struct frames_body {
  map_addresses addresses;  // of y, signal and window
  std::uint64_t samples;
  std::uint64_t hop;
  std::uint64_t padding;
  std::int64_t signal_stride;
  std::int64_t window_stride;

  SLUICE_HOST_DEVICE void operator()(const map_layout<4>&,
                                     const map_position<4>& position) const noexcept {
    // Before the signal, the difference wraps to a number beyond its end.
    const std::uint64_t sample = static_cast<std::uint64_t>(position.offsets[2]) * hop +
                                 static_cast<std::uint64_t>(position.offsets[3]) - padding;
    T value = 0;
    if (sample < samples) {
      value =
          element_at<T>(addresses.inputs[0],
                        position.offsets[1] + static_cast<std::int64_t>(sample) * signal_stride);
    }
    if (addresses.inputs[1] != nullptr) {
      value = value * element_at<T>(addresses.inputs[1], position.offsets[3] * window_stride);
    }
    put_element(addresses.y, position.offsets[0], value);
  }
};

template <class Run>
int visit(const power_call& call, const map_addresses& addresses, const Run& run) {
  if (call.layout.types[0] == storage::f32) {
    return run(map_body<squared_magnitude<float>, 2>{{}, addresses}, call.layout);
  }
  if (call.layout.types[0] == storage::f64) {
    return run(map_body<squared_magnitude<double>, 2>{{}, addresses}, call.layout);
  }
  return 0;
}

template <class Run>
int visit(const decibel_call& call, const map_addresses& addresses, const Run& run) {
  const auto run_with = [&](auto number) {
    using real = decltype(number);
    return run(
        map_body<decibels<real>, 3>{{static_cast<real>(call.amin), static_cast<real>(call.top_db)},
                                    addresses},
        call.layout);
  };
  if (call.layout.types[0] == storage::f32) return run_with(float{});
  if (call.layout.types[0] == storage::f64) return run_with(double{});
  return 0;
}

template <class Run>
int visit(const frames_call& call, const map_addresses& addresses, const Run& run) {
  const auto run_with = [&](auto number) {
    return run(frames_body<decltype(number)>{addresses, call.samples, call.hop, call.padding,
                                             call.signal_stride, call.window_stride},
               call.layout);
  };
  if (call.layout.types[0] == storage::f32) return run_with(float{});
  if (call.layout.types[0] == storage::f64) return run_with(double{});
  return 0;
}

}  // namespace sluice::operations
