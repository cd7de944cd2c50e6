// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Sums of windows of images of f32 with the largest vectors of the processor.
namespace sluice::host {

/// The filters of a `window_row` are at most this number, which the registers hold.
inline constexpr std::int64_t window_filters = 4;
/// The windows of a `window_row` are at least this number: those of the largest vector.
inline constexpr std::int64_t least_windows = 16;

/// A row of neighbouring windows under some filters.
struct window_row {
  const float* x = nullptr;     ///< the element of X at position 0
  std::int64_t first = 0;       ///< the position of the first window; may be negative
  std::int64_t channels = 1;    ///< of X
  std::int64_t x_channel = 0;   ///< distance of the channels of X, in elements
  const std::int64_t* taps{};   ///< the distance of each tap from the position of its window
  std::int64_t tap_count = 1;   ///< the number of these
  const float* w = nullptr;     ///< of each channel and tap: a number for each filter
  std::int64_t w_channel = 0;   ///< distance of the numbers of neighbouring channels
  const float* bias = nullptr;  ///< of each filter; nullptr: zeros
  std::int64_t filters = 1;     ///< 1, 2 or 4
  float* y = nullptr;           ///< the first result
  std::int64_t y_channel = 0;   ///< distance of the results of neighbouring filters
  std::int64_t windows = 0;     ///< one element apart in X and in Y
};

/// y[k][i] = bias[k] + the sum over all channels c and taps t of x[c][i + t] · w[c][t][k].
void sum_windows_f32(const window_row& row);

}  // namespace sluice::host
