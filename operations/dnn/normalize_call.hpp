// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <cmath>
#include <cstdint>

// Normalizations of rows: the elements that share a maximum, a mean or a variance. Kernels include
// this header, so it compiles as C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// What is computed of a row.
enum class normalization : std::uint8_t {
  softmax,
  log_softmax,
  layer,  ///< with the mean and the variance of the row
  rms,    ///< with the mean of squares
  batch,  ///< with a mean and a variance of the channel
  l1,     ///< divided by the sum of magnitudes
  l2,     ///< divided by the root of the sum of squares
};

[[nodiscard]] SLUICE_HOST_DEVICE constexpr bool divides_by_norm(normalization kind) noexcept {
  return kind == normalization::l1 || kind == normalization::l2;
}
/// The factor of a row of type `T` whose magnitudes or squares have the sum `total`. Rows whose
/// norm has no reciprocal in `T` become zeros, as rows of zeros do.
template <class T, class Total>
[[nodiscard]] SLUICE_HOST_DEVICE inline T norm_factor(normalization kind, Total total) noexcept {
  const auto factor =
      static_cast<T>(Total(1) / (kind == normalization::l1 ? total : std::sqrt(total)));
  return factor > highest_v<T> ? T(0) : factor;
}

/// A normalization. Operand 0 is y, operand 1 is x, and operand 2 stands for scale, bias, mean and
/// variance, which lie alike. The first `row_rank` dimensions are those of the rows.
struct normalize_call {
  static constexpr int operands = 3;

  std::int64_t rows = 0;
  std::int64_t count = 0;  ///< elements of a row
  double epsilon = 0;
  std::int32_t row_rank = 1;
  std::int32_t rank = 2;
  std::int32_t lanes = 1;  ///< threads that compute a row of any strides: a power of two
  storage type = storage::f32;
  normalization kind = normalization::softmax;
  std::int64_t shape[max_dimensions + 1]{};
  std::int64_t strides[operands][max_dimensions + 1]{};
};

/// The operands of a normalization; nullptr if not given.
struct normalize_addresses {
  void* y = nullptr;
  const void* x = nullptr;
  const void* scale = nullptr;
  const void* bias = nullptr;
  const void* mean = nullptr;
  const void* variance = nullptr;
};

/// The positions of index number `index` over the dimensions from `first` to before `last`.
[[nodiscard]] SLUICE_HOST_DEVICE inline map_position<3> position_among(const normalize_call& call,
                                                                       int first, int last,
                                                                       std::int64_t index) {
  map_position<3> position{};
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
  for (int d = last - 1; d > first; --d) {
    const auto split = divide(index, call.shape[d]);
    for (int k = 0; k < 3; ++k) position.offsets[k] += split.remainder * call.strides[k][d];
    index = split.value;
  }
  for (int k = 0; k < 3; ++k) position.offsets[k] += index * call.strides[k][first];
  return position;
}
/// The positions of the first element of a row, and those of an element relative to it.
///@{
[[nodiscard]] SLUICE_HOST_DEVICE inline map_position<3> position_of_row(const normalize_call& call,
                                                                        std::int64_t row) {
  return position_among(call, 0, call.row_rank, row);
}
[[nodiscard]] SLUICE_HOST_DEVICE inline map_position<3> position_of_element(
    const normalize_call& call, std::int64_t i) {
  return position_among(call, call.row_rank, call.rank, i);
}
///@}

/// Whether the elements of each row of y and x have no gaps.
[[nodiscard]] inline bool has_flat_rows(const normalize_call& call) noexcept {
  std::int64_t step = 1;
  for (int d = call.rank - 1; d >= call.row_rank; --d) {
    for (int k = 0; k < 2; ++k) {
      if (call.shape[d] != 1 && call.strides[k][d] != step) return false;
    }
    step *= call.shape[d];
  }
  return true;
}

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_normalize();

/// Queues a normalization with at least one element on a stream of the current device. Returns a
/// `cudaError_t`.
[[nodiscard]] int launch_normalize(const normalize_call& call, const normalize_addresses& addresses,
                                   native_stream* stream);

}  // namespace sluice::operations
