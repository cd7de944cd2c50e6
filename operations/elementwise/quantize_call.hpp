// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/arithmetic.hpp"
#include "operations/elementwise/functors.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cmath>
#include <cstdint>

// Real numbers as small integers or numbers of 8 bits and back. Kernels include this header, so it
// compiles as C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// x / scale, rounded to the nearest integer, + zero point. Stored, it saturates.
struct quantized : map_function<float> {
  static constexpr bool inputs_may_miss = true;
  [[nodiscard]] SLUICE_HOST_DEVICE float missing(int) const noexcept { return 0; }
  SLUICE_HOST_DEVICE float operator()(float x, float scale, float zero_point) const noexcept {
    return std::rint(x / scale) + zero_point;
  }
};
/// x / scale + zero point, which is rounded when it is stored.
struct quantized_float : map_function<float> {
  static constexpr bool inputs_may_miss = true;
  /// Changes no sum, not even that with -0.
  [[nodiscard]] SLUICE_HOST_DEVICE float missing(int) const noexcept { return -0.0F; }
  SLUICE_HOST_DEVICE float operator()(float x, float scale, float zero_point) const noexcept {
    return x / scale + zero_point;
  }
};
/// (x - zero point) · scale.
struct dequantized : map_function<float> {
  static constexpr bool inputs_may_miss = true;
  [[nodiscard]] SLUICE_HOST_DEVICE float missing(int) const noexcept { return 0; }
  SLUICE_HOST_DEVICE float operator()(float x, float scale, float zero_point) const noexcept {
    return (x - zero_point) * scale;
  }
};

/// A map in f32. Operands: y, x, scale, zero point.
struct quantize_call {
  map_layout<4> layout{};
};
struct dequantize_call {
  map_layout<4> layout{};
};

template <class Run>
int visit(const quantize_call& call, const map_addresses& addresses, const Run& run) {
  const auto type = call.layout.types[0];
  if (type == storage::e4m3 || type == storage::e5m2) {
    return run(map_body<quantized_float, 4>{{}, addresses}, call.layout);
  }
  return run(map_body<quantized, 4>{{}, addresses}, call.layout);
}
template <class Run>
int visit(const dequantize_call& call, const map_addresses& addresses, const Run& run) {
  return run(map_body<dequantized, 4>{{}, addresses}, call.layout);
}

/// The smallest and the largest of some numbers and 0.
struct value_range {
  float least = 0;
  float most = 0;

  SLUICE_HOST_DEVICE void add(float least_value, float most_value) noexcept {
    least = smaller(least, least_value);
    most = larger(most, most_value);
  }
  /// The distance of numbers that 8 bits hold.
  [[nodiscard]] SLUICE_HOST_DEVICE float scale() const noexcept {
    const float distance = (most - least) / 255.0F;
    return distance == 0 ? 1.0F : distance;
  }
  /// The number that stands for 0.
  [[nodiscard]] SLUICE_HOST_DEVICE std::uint8_t zero_point() const noexcept {
    return to_integer<std::uint8_t, overflow::saturates>(std::rint(-least / scale()));
  }
};

/// What a plan depends on.
struct dynamic_quantize_key {
  std::int64_t workspace_bytes = 0;
};
/// Bytes with the scale of all of them.
struct dynamic_quantize_call {
  /// The parts of x of which a GPU finds the ranges at once.
  static constexpr int max_parts = 1024;

  dynamic_quantize_key key{max_parts * sizeof(value_range)};
  map_layout<1> x{};
  quantize_call elements{};  ///< scale and zero point have stride 0
};

/// Loads the kernels that find ranges. Returns a `cudaError_t`.
[[nodiscard]] int load_value_range();

/// Queues two kernels on a stream of the current device, which write the scale and the zero point
/// of x. `workspace` has the size that the call states. Returns a `cudaError_t`.
[[nodiscard]] int launch_value_range(const map_layout<1>& layout, const void* x, float* scale,
                                     std::uint8_t* zero_point, void* workspace,
                                     native_stream* stream);

}  // namespace sluice::operations
