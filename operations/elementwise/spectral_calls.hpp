// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/edge_index.hpp"
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

/// Frames of a signal; all numbers are below 2^62. `padding` is below `samples` with `wrap`.
struct frames_layout {
  std::int64_t samples = 0;
  std::int64_t hop = 1;
  std::int64_t padding = 0;  ///< of the first frame before the signal
  std::int64_t signal_stride = 1;
  std::int64_t window_stride = 1;
  std::int64_t window_begin = 0;  ///< the first index of a frame with a factor
  std::int64_t window_size = 0;
  pad_mode mode = pad_mode::constant;
};

/// y[f, j] = window[j - window_begin] · signal[f · hop + j - padding]. Operands: y, the first
/// sample of a signal, f and j. The latter two are no memory: their positions are the indices.
struct frames_call {
  map_layout<4> layout{};
  frames_layout frames{};
};

/// Computes the elements of windowed frames of type `T`.
template <class T>
struct frames_body {
  map_addresses addresses;  // of y, signal and window
  frames_layout frames;

  SLUICE_HOST_DEVICE void operator()(const map_layout<4>&,
                                     const map_position<4>& position) const noexcept {
    const std::int64_t place = position.offsets[3];
    const std::int64_t sample = edge_index(
        frames.mode, position.offsets[2] * frames.hop + place - frames.padding, frames.samples);
    T value = 0;
    if (sample >= 0) {
      value =
          element_at<T>(addresses.inputs[0], position.offsets[1] + sample * frames.signal_stride);
    }
    if (addresses.inputs[1] != nullptr) {
      const std::int64_t index = place - frames.window_begin;
      const bool is_inside = index >= 0 && index < frames.window_size;
      value = value *
              (is_inside ? element_at<T>(addresses.inputs[1], index * frames.window_stride) : T(0));
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
    return run(frames_body<decltype(number)>{addresses, call.frames}, call.layout);
  };
  if (call.layout.types[0] == storage::f32) return run_with(float{});
  if (call.layout.types[0] == storage::f64) return run_with(double{});
  return 0;
}

}  // namespace sluice::operations
