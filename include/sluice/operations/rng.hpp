// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/optional_extents.hpp>
#include <sluice/operations/scalar.hpp>

#include <optional>
#include <tuple>

namespace sluice {

/// The numbers with index offset, offset + 1, … of the sequence that `seed` selects, as elements of
/// Y in row-major order.
///
///     random_bits{.shape = {1024}, .seed = 42}
///
/// The operations draw from Philox4x32-10 (J. K. Salmon et al., "Parallel random numbers: as easy
/// as 1, 2, 3", 2011), in cuRAND's default order. A sequence has 2^64 numbers. However a range is
/// cut into requests, its numbers are the same, on every device. Y is a new tensor of the given
/// shape if it is not given. If Y is given, `shape` may be left out. If Y is not contiguous, the
/// launch copies the numbers to it from temporary memory.
///
/// `random_bits` gives the generator's words: u32, equal to cuRAND's.
struct random_bits {
  optional_extents shape{};  ///< shape of Y
  scalar seed = 0;           ///< selects the sequence: an integer from 0 to 2^64 - 1
  scalar offset = 0;         ///< index of the first number
  operand y{};               ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(parameter("shape", &random_bits::shape),
                           parameter("seed", &random_bits::seed),
                           parameter("offset", &random_bits::offset), output("y", &random_bits::y));
  }
};

/// Uniform random numbers in (0, 1], f32 or f64, equal to cuRAND's in every bit. Otherwise like
/// `random_bits`.
struct random_uniform {
  optional_extents shape{};            ///< shape of Y
  std::optional<element_type> type{};  ///< type of Y; f32 if neither this nor Y is given
  scalar seed = 0;                     ///< selects the sequence
  scalar offset = 0;                   ///< index of the first number
  operand y{};                         ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        parameter("shape", &random_uniform::shape), parameter("type", &random_uniform::type),
        parameter("seed", &random_uniform::seed), parameter("offset", &random_uniform::offset),
        output("y", &random_uniform::y));
  }
};

/// Normal random numbers, f32 or f64, by the method of Box and Muller. The devices agree within
/// 4 ulp before mean and deviation. A number is z · stddev, rounded, + mean, rounded. Otherwise
/// like `random_bits`.
struct random_normal {
  optional_extents shape{};            ///< shape of Y
  std::optional<element_type> type{};  ///< type of Y; f32 if neither this nor Y is given
  scalar seed = 0;                     ///< selects the sequence
  scalar offset = 0;                   ///< index of the first number
  scalar mean = 0;                     ///< mean of the numbers, finite
  scalar stddev = 1;                   ///< standard deviation, finite, at least 0
  operand y{};                         ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        parameter("shape", &random_normal::shape), parameter("type", &random_normal::type),
        parameter("seed", &random_normal::seed), parameter("offset", &random_normal::offset),
        parameter("mean", &random_normal::mean), parameter("stddev", &random_normal::stddev),
        output("y", &random_normal::y));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<random_bits>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<random_uniform>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<random_normal>);
///@}

}  // namespace sluice
