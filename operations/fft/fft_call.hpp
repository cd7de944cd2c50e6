// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/fft.hpp>
#include <sluice/operations/operation.hpp>

#include <bit>
#include <cstddef>
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
  /// Their size in bytes.
  ///@{
  [[nodiscard]] std::int64_t input_row_bytes() const noexcept {
    return input_row() * real_bytes() * (kind == fft_kind::r2c ? 1 : 2);
  }
  [[nodiscard]] std::int64_t output_row_bytes() const noexcept {
    return output_row() * real_bytes() * (kind == fft_kind::c2r ? 1 : 2);
  }
  ///@}
  friend bool operator==(const fft_row&, const fft_row&) noexcept = default;

 private:
  [[nodiscard]] std::int64_t real_bytes() const noexcept { return is_double != 0 ? 8 : 4; }
};

/// What a plan of cuFFT depends on: all rows.
struct fft_key : fft_row {
  std::int64_t batch = 1;            ///< number of rows
  std::int64_t input_distance = 1;   ///< between rows of X, in elements
  std::int64_t output_distance = 1;  ///< between rows of Y, in elements

  friend bool operator==(const fft_key&, const fft_key&) noexcept = default;
};

/// The largest number of launches in a batch.
inline constexpr std::size_t most_transforms = 64;
/// The largest number of launches of transforms with this key in a batch; 0: they are launched
/// alone.
[[nodiscard]] std::size_t most_in_batch(const fft_key& key) noexcept;

/// The transforms of the rows of one tensor.
struct fft_call {
  fft_key key{};
  double scale = 1;  ///< exact in the type of the real numbers

  [[nodiscard]] const fft_row& host_key() const noexcept { return key; }
  [[nodiscard]] launch_facts facts() const noexcept {
    const auto steps = static_cast<double>(std::bit_width(static_cast<std::uint64_t>(key.length)));
    return {.sizes = {key.length, key.batch},
            .work = static_cast<double>(key.length) * static_cast<double>(key.batch) * steps};
  }
};

}  // namespace sluice::operations
