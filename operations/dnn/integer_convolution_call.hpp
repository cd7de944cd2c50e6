// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_element.hpp"

#include <cstdint>

// Convolutions of small integers. Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// The sums of a convolution of i8 or u8 in i32. Operands have any strides.
struct integer_sums {
  element_call sums{};  ///< its type is that of X
  storage w_type = storage::i8;
  std::int64_t w_zero_stride = 0;  ///< between the zero points of neighbouring filters
};

/// The operands of a launch. The zero points may be null.
struct integer_addresses {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* x_zero_point = nullptr;
  const void* w_zero_point = nullptr;
  void* y = nullptr;
};

/// The zero points of an element of Y.
struct integer_zeros {
  std::int32_t x;
  std::int32_t w;
};
[[nodiscard]] SLUICE_HOST_DEVICE inline integer_zeros zeros_of(const integer_sums& call,
                                                               const integer_addresses& a,
                                                               std::int64_t channel) noexcept {
  return {a.x_zero_point == nullptr ? 0 : load<std::int32_t>(call.sums.type, a.x_zero_point, 0),
          a.w_zero_point == nullptr
              ? 0
              : load<std::int32_t>(call.w_type, a.w_zero_point, channel * call.w_zero_stride)};
}

/// The sum of the products of an element of Y, which wraps.
[[nodiscard]] SLUICE_HOST_DEVICE inline std::int32_t sum_of_products(const integer_sums& call,
                                                                     const integer_addresses& a,
                                                                     const element_index& index) {
  const auto zeros = zeros_of(call, a, index.channel);
  std::uint32_t sum = 0;
  for_each_product(call.sums, index, [&](std::int64_t from_x, std::int64_t from_w) {
    const auto x = load<std::int32_t>(call.sums.type, a.x, from_x) - zeros.x;
    const auto w = load<std::int32_t>(call.w_type, a.w, from_w) - zeros.w;
    sum += static_cast<std::uint32_t>(x * w);
  });
  return static_cast<std::int32_t>(sum);
}

/// Loads the kernel. Returns a `cudaError_t`.
[[nodiscard]] int load_integer_sums();
/// Enqueues the sums of a Y with at least one element on a stream of the current device. Returns a
/// `cudaError_t`.
[[nodiscard]] int launch_integer_sums(const integer_sums& call, const integer_addresses& addresses,
                                      native_stream* stream);

}  // namespace sluice::operations
