// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <limits>

namespace sluice::detail {

/// The alignment of every block, in bytes.
inline constexpr std::size_t block_alignment = 256;

/// The size in bytes to which pools round `bytes` (> 0): eight classes for each power of two, in
/// steps of at least `block_alignment`. Above 2 KiB at most an eighth is wasted. A size that cannot
/// be rounded without overflow is returned unchanged.
[[nodiscard]] constexpr std::size_t size_class(std::size_t bytes) noexcept {
  const std::size_t step =
      bytes <= block_alignment * 8 ? block_alignment : std::bit_floor(bytes - 1) / 8;
  if (bytes > std::numeric_limits<std::size_t>::max() - step) return bytes;
  return (bytes + step - 1) / step * step;
}

/// The number of the size class of `size`, a result of `size_class`.
[[nodiscard]] constexpr std::size_t class_number(std::size_t size) noexcept {
  if (size <= block_alignment * 8) return size / block_alignment - 1;
  // (2^p, 2^(p+1)] holds eight classes; 2^p = 2048 is the first of these ranges.
  const auto power = static_cast<std::size_t>(std::bit_width(size - 1)) - 1;
  return 8 * (power - 10) + (size - 1) / ((std::size_t{1} << power) / 8) - 8;
}

/// The number of the largest size class that fits into `bytes`, which is at least
/// `block_alignment`.
[[nodiscard]] constexpr std::size_t class_within(std::size_t bytes) noexcept {
  const auto size = size_class(bytes);
  const auto number = class_number(size);
  return size == bytes ? number : number - 1;
}

/// The size in bytes of the class with this number.
[[nodiscard]] constexpr std::size_t class_size(std::size_t number) noexcept {
  if (number < 8) return (number + 1) * block_alignment;
  const auto power = (number - 8) / 8 + 11;
  return (std::size_t{1} << power) + ((number - 8) % 8 + 1) * ((std::size_t{1} << power) / 8);
}

}  // namespace sluice::detail
