// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/fft.hpp>

#include <cstdint>

namespace sluice::operations {

/// The kind of a transform.
enum class fft_kind : std::int64_t { c2c_forward, c2c_inverse, r2c, c2r };

/// The transform of one row: what a plan of the host depends on.
struct fft_row {
  fft_kind kind = fft_kind::c2c_forward;
  std::int64_t is_double = 0;  ///< 1: the real numbers are f64
  std::int64_t length = 1;     ///< n

  /// The elements of a row of X.
  [[nodiscard]] std::int64_t input_row() const noexcept {
    return kind == fft_kind::c2r ? length / 2 + 1 : length;
  }
  /// The elements of a row of Y.
  [[nodiscard]] std::int64_t output_row() const noexcept {
    return kind == fft_kind::r2c ? length / 2 + 1 : length;
  }
};

/// What a plan of cuFFT depends on: all rows.
struct fft_key : fft_row {
  std::int64_t batch = 1;            ///< number of rows
  std::int64_t input_distance = 1;   ///< between rows of X, in elements
  std::int64_t output_distance = 1;  ///< between rows of Y, in elements
};

/// A batch of transforms.
struct fft_call {
  fft_key key{};
  double scale = 1;  ///< exact in the type of the real numbers

  [[nodiscard]] const fft_row& host_key() const noexcept { return key; }
  [[nodiscard]] launch_facts facts() const noexcept { return {.sizes = {key.length, key.batch}}; }
};

}  // namespace sluice::operations
