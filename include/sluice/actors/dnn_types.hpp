// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// What is applied to each element of a result. ReLU keeps NaN.
enum class activation : std::uint8_t { none, relu };

/// How products of f32 numbers are computed.
enum class math_mode : std::uint8_t {
  f32,   ///< in f32
  tf32,  ///< factors may be rounded to TF32 (10 bits of fraction) where the device gains by it
};

/// The shape of a tensor in NCHW order: `w` varies fastest. Not negative; any of them may be 0.
struct SLUICE_EXPORT nchw_shape {
  std::int64_t n = 0;  ///< batch
  std::int64_t c = 0;  ///< channels
  std::int64_t h = 0;  ///< height
  std::int64_t w = 0;  ///< width
  [[nodiscard]] auto operator<=>(const nchw_shape&) const noexcept = default;

  /// The number of elements. @throws error `invalid_argument` when a dimension is negative or the
  /// size overflows
  [[nodiscard]] std::size_t elements() const;
};

/// The shape of the filters of a convolution in KCRS order: `s` varies fastest.
struct SLUICE_EXPORT filter_shape {
  std::int64_t k = 0;  ///< filters: channels of the output
  std::int64_t c = 0;  ///< channels of each filter: those of the input divided by the groups
  std::int64_t r = 0;  ///< height
  std::int64_t s = 0;  ///< width
  [[nodiscard]] auto operator<=>(const filter_shape&) const noexcept = default;

  /// As `nchw_shape::elements`.
  [[nodiscard]] std::size_t elements() const;
};

/// How filters move over the input of a 2-D convolution:
///
///     conv2d_geometry{.padding = {.h = 1, .w = 1}, .groups = 4}
struct conv2d_geometry {
  /// A number of elements in the height and in the width; what is left out is 0.
  struct widths {
    std::int64_t h = 0;  ///< along the height
    std::int64_t w = 0;  ///< along the width
    [[nodiscard]] auto operator<=>(const widths&) const noexcept = default;
  };
  /// The distance to the next element in the height and in the width; what is left out is 1.
  struct steps {
    std::int64_t h = 1;  ///< along the height
    std::int64_t w = 1;  ///< along the width
    [[nodiscard]] auto operator<=>(const steps&) const noexcept = default;
  };

  widths padding{};         ///< zeros added at each side, at least 0
  steps stride{};           ///< between outputs, at least 1
  steps dilation{};         ///< between the taps of a filter, at least 1
  std::int64_t groups = 1;  ///< divides the channels of input and output
  [[nodiscard]] auto operator<=>(const conv2d_geometry&) const noexcept = default;
};

/// The shape of the result: in the height, with H, R, padding p, dilation d and stride t, it is
/// ⌊(H + 2p − d(R − 1) − 1) / t⌋ + 1; likewise in the width. Never empty unless `input.n` or
/// `filter.k` is 0.
/// @throws error `invalid_argument`, naming the argument: a dimension or a parameter out of its
///   range; `groups` that do not divide the channels, or filters that do not have as many channels
///   as a group; filters that do not fit into the padded input; a tensor whose size overflows
[[nodiscard]] SLUICE_EXPORT nchw_shape conv2d_output_shape(const nchw_shape& input,
                                                           const filter_shape& filter,
                                                           const conv2d_geometry& geometry);

}  // namespace sluice
