// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/f32_loops.hpp"

#include <cstdint>

// Loops over rows without gaps that are computed in f32, with the largest vectors of the processor.
// y may be at the address of x.
namespace sluice::host {

/// y[i] = exp(x[i] - shift), if y is not nullptr, where no x[i] is above `shift`.
/// @return the sum of these numbers
[[nodiscard]] double exponentials_f32(const float* x, std::int64_t count, float shift, float* y);
/// Likewise of `count` columns: of element i of each row, the shift is shifts[i], and sums[i] grows
/// by the sum. Rows of y lie `distance` elements apart.
void exponentials_of_columns_f32(const f32_rows& x, std::int64_t count, const float* shifts,
                                 float* y, std::int64_t distance, double* sums);

/// The largest of the x[i] that are numbers; -infinity if there are none. Processors without SSE
/// may answer NaN if an x[i] is NaN.
[[nodiscard]] float largest_number_f32(const float* x, std::int64_t count);

/// The sums of x[i] - shift and of its square.
struct deviation_sums {
  double differences = 0;
  double squares = 0;
};
[[nodiscard]] deviation_sums deviations_f32(const float* x, std::int64_t count, float shift);

/// y[i] = (x[i] - shift - residual) · factor · scale[i] + bias[i]. Without one of them, nullptr,
/// its constant stands for it.
template <class T>
struct row_map {
  T shift = 0;
  T residual = 0;
  T factor = 1;
  const T* scale = nullptr;
  const T* bias = nullptr;
  T constant_scale = 1;
  T constant_bias = T{-0.0};  ///< a sum with -0 keeps the sign of zeros
  /// Whether y, which is not at the address of x, is stored past the caches. Other threads may read
  /// it after `finish_streams`.
  bool is_streamed = false;

  /// Whether it is x[i] · factor.
  [[nodiscard]] bool only_multiplies() const noexcept {
    return shift == 0 && residual == 0 && scale == nullptr && bias == nullptr &&
           constant_scale == 1 && constant_bias == 0;
  }
};
void map_row_f32(const row_map<float>& map, const float* x, std::int64_t count, float* y);

/// y[i] += x[i].
void add_f64(const double* x, std::int64_t count, double* y);
/// y[i] = x[i] · factor, rounded.
void scale_f64(const double* x, std::int64_t count, double factor, float* y);
/// y[i] = x[2 · i].
///@{
void every_second(const float* x, std::int64_t count, float* y);
void every_second(const double* x, std::int64_t count, double* y);
///@}

}  // namespace sluice::host
