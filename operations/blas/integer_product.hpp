// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Products of 8-bit integers. Kernels include this header, so it compiles as C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// One factor of a stack of products.
struct integer_factor {
  const void* elements = nullptr;
  std::int64_t step = 1;       ///< to the next row of the first factor or column of the second
  std::int64_t term_step = 1;  ///< to the next term of a sum
  std::int64_t distance = 0;   ///< to the next factor of the stack
  bool is_unsigned = false;    ///< u8; otherwise i8
};

/// C = first · second, or C = first · second + C, for a stack of i32 matrices that are stored by
/// columns. Sums wrap around.
struct integer_product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t count = 0;
  integer_factor first{};
  integer_factor second{};  ///< not unsigned if the first one is
  std::int32_t* c = nullptr;
  std::int64_t c_leading = 1;
  std::int64_t c_distance = 0;
  bool adds = false;  ///< the previous C
};

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_integer_product();

/// Queues products with at least one result on a stream of the current device. Returns a
/// `cudaError_t`.
[[nodiscard]] int launch_integer_product(const integer_product& product, native_stream* stream);

}  // namespace sluice::operations
