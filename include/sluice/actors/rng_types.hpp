// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/element_type.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

/// What random numbers look like. All come from Philox4x32-10 in the order of cuRAND's default
/// ordering.
enum class random_distribution : std::uint8_t {
  bits,     ///< u32: the generator's words; equal to cuRAND's
  uniform,  ///< f32 or f64 in (0, 1]; equal to cuRAND's in every bit
  normal,  ///< f32 or f64 by Box–Muller; the devices agree within 4 ulp before mean and deviation
};

/// The short name: "uniform".
[[nodiscard]] constexpr std::string_view to_string(random_distribution distribution) noexcept {
  switch (distribution) {
    case random_distribution::bits:
      return "bits";
    case random_distribution::uniform:
      return "uniform";
    case random_distribution::normal:
      return "normal";
  }
  return "unknown";
}

/// Elements [offset, offset + count) of the one sequence that `seed`, the distribution and the
/// element type determine. Its elements are numbered from 0 to 2^64 - 1; however a range is cut
/// into requests, the numbers are the same.
struct random_description {
  random_distribution distribution = random_distribution::uniform;  ///< distribution of the numbers
  element_type type = element_type::f32;                            ///< element type of the numbers
  std::uint64_t seed = 0;                                           ///< selects the sequence
  std::uint64_t offset = 0;                                         ///< first element of the range
  std::size_t count = 0;                                            ///< number of elements
  double mean = 0;    ///< normal only: value = z * stddev, rounded, + mean, in the element type
  double stddev = 1;  ///< normal only
};

/// Refuses what no sequence has.
/// @throws error `invalid_argument`: the type does not fit the distribution (bits: u32; the others:
/// f32, f64); the range ends beyond element 2^64 - 1; the number of bytes overflows; mean or stddev
/// not finite, stddev negative, or either given for another distribution than normal
SLUICE_EXPORT void require_valid(const random_description& description);

}  // namespace sluice
