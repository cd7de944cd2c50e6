// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/scalar.hpp>

#include <cstdint>
#include <optional>
#include <tuple>

namespace sluice {

/// The number of elements of X in each of several bins of equal width.
///
///     histogram{.x = x, .bins = 100, .low = 0, .high = 1}
///     histogram{.x = classes, .bins = 10, .low = -0.5, .high = 9.5}  // of each integer from 0 to
///     9
///
/// An element x from low to high belongs to bin ⌊(x - low) / (high - low) · bins⌋, which is
/// computed in f64; high itself belongs to the last bin. Elements out of this range and NaN belong
/// to none. NumPy calls this `histogram`, PyTorch `histc`. Their bins may differ by one where an
/// element is next to the edge of a bin. An i64 or u64 is rounded to f64 first.
///
/// The counts are the same on every device. For sums of weights instead of counts, add the weights
/// with `scatter_elements` to zeros.
///
/// X and Y have any strides and share no bytes. The result is Y, a new tensor if it is not given.
struct histogram {
  operand x{};                   ///< X, no boolean, e4m3, e5m2, c64 or c128; of any shape
  std::int64_t bins = 0;         ///< number of bins, at least 1
  std::optional<scalar> low{};   ///< the lower edge of the first bin, finite
  std::optional<scalar> high{};  ///< the upper edge of the last bin, finite and above `low`
  operand y{};                   ///< Y, of type i64 and the shape (bins)

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &histogram::x), parameter("bins", &histogram::bins),
                           parameter("low", &histogram::low), parameter("high", &histogram::high),
                           output("y", &histogram::y));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<histogram>);

}  // namespace sluice
