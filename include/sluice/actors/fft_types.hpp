// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/element_type.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

/// Which discrete Fourier transform. None normalises: forward then inverse multiplies by the
/// length.
enum class fft_kind : std::uint8_t {
  c2c_forward,  ///< Y[k] = Σ_j X[j] exp(-2πi jk/n)
  c2c_inverse,  ///< Y[k] = Σ_j X[j] exp(+2πi jk/n)
  r2c,          ///< forward, of n real numbers: the first n/2 + 1 bins
  c2r,          ///< inverse, of n/2 + 1 bins of a Hermitian spectrum, to n real numbers. The
                ///< imaginary parts of bin 0 and, for even n, of bin n/2 are taken as 0
};

/// The short name: "c2c_forward".
[[nodiscard]] constexpr std::string_view to_string(fft_kind kind) noexcept {
  switch (kind) {
    case fft_kind::c2c_forward:
      return "c2c_forward";
    case fft_kind::c2c_inverse:
      return "c2c_inverse";
    case fft_kind::r2c:
      return "r2c";
    case fft_kind::c2r:
      return "c2r";
  }
  return "unknown";
}

/// A batch of one-dimensional transforms of one length. Elements of a row are neighbours; row b
/// begins at element b * distance of its array. All sizes are in elements.
struct fft_description {
  fft_kind kind = fft_kind::c2c_forward;       ///< what is transformed, and in which direction
  element_type precision = element_type::f32;  ///< f32 or f64, of the real or of both parts
  std::size_t length = 0;                      ///< n, at least 1; for c2r that of the output
  std::size_t batch = 1;                       ///< number of transforms
  /// 0 stands for the row's own size. Rows of the input of r2c and c2c may overlap (a distance
  /// smaller than the row); rows of the output may not.
  ///@{
  std::size_t input_distance = 0;
  std::size_t output_distance = 0;
  ///@}
  [[nodiscard]] auto operator<=>(const fft_description&) const noexcept = default;
};

/// The elements of one row of the input: n, for c2r n/2 + 1.
[[nodiscard]] constexpr std::size_t input_row(fft_kind kind, std::size_t length) noexcept {
  return kind == fft_kind::c2r ? length / 2 + 1 : length;
}
/// The elements of one row of the output: n, for r2c n/2 + 1.
[[nodiscard]] constexpr std::size_t output_row(fft_kind kind, std::size_t length) noexcept {
  return kind == fft_kind::r2c ? length / 2 + 1 : length;
}
/// The type of the input's elements: complex but for r2c.
[[nodiscard]] constexpr element_type input_type(const fft_description& description) noexcept {
  if (description.kind == fft_kind::r2c) return description.precision;
  return description.precision == element_type::f64 ? element_type::c128 : element_type::c64;
}
/// The type of the output's elements: complex but for c2r.
[[nodiscard]] constexpr element_type output_type(const fft_description& description) noexcept {
  if (description.kind == fft_kind::c2r) return description.precision;
  return description.precision == element_type::f64 ? element_type::c128 : element_type::c64;
}

/// `description` with the distances filled in.
/// @throws error `invalid_argument`: precision neither f32 nor f64; length 0; a distance that makes
/// rows of the output overlap, or of the input of c2r; the number of bytes overflows
[[nodiscard]] SLUICE_EXPORT fft_description completed(const fft_description& description);

/// The elements from the first row's first to the last row's last one: what the input, or the
/// output, must hold. 0 for an empty batch. For a completed description.
///@{
[[nodiscard]] constexpr std::size_t input_extent(const fft_description& d) noexcept {
  return d.batch == 0 ? 0 : (d.batch - 1) * d.input_distance + input_row(d.kind, d.length);
}
[[nodiscard]] constexpr std::size_t output_extent(const fft_description& d) noexcept {
  return d.batch == 0 ? 0 : (d.batch - 1) * d.output_distance + output_row(d.kind, d.length);
}
///@}

}  // namespace sluice
