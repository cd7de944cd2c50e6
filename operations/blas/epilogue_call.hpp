// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/storage.hpp"

#include <sluice/operations/activation.hpp>

#include <cstdint>

// What follows products of matrices. Kernels include this header, so it compiles as C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// The elements of C to which a number of a bias is added.
enum class bias_axis : std::uint8_t {
  none,    ///< there is no bias
  all,     ///< one number for all elements
  row,     ///< a number for each row
  column,  ///< a number for each column
};

/// C = activation(factor · C + bias) + residual, for a stack of matrices that are stored by
/// columns.
struct epilogue_call {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t count = 0;              ///< matrices
  std::int64_t leading = 1;            ///< distance between columns of C, in elements
  std::int64_t distance = 0;           ///< distance between matrices of C, in elements
  std::int64_t residual_leading = 1;   ///< the same of the residual
  std::int64_t residual_distance = 0;  ///< the same of the residual
  double factor[2]{1, 0};              ///< real and imaginary part; if it is 0, C is not read
  storage type = storage::f32;
  bias_axis bias = bias_axis::none;
  activation function = activation::none;
  bool has_residual = false;

  /// Whether it leaves C as it is.
  [[nodiscard]] bool is_empty() const noexcept {
    return factor[0] == 1 && factor[1] == 0 && bias == bias_axis::none &&
           function == activation::none && !has_residual;
  }
};

/// The operands of an epilogue. Those that it does not have are nullptr.
struct epilogue_addresses {
  void* c = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
};

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_epilogue();

/// Queues an epilogue with at least one element on a stream of the current device. Returns a
/// `cudaError_t`.
[[nodiscard]] int launch_epilogue(const epilogue_call& call, const epilogue_addresses& addresses,
                                  native_stream* stream);

}  // namespace sluice::operations
