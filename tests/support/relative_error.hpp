// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <ranges>
#include <span>
#include <stdexcept>
#include <type_traits>

namespace sluice::test {

/// A real or complex number as a complex one of the widest type.
///@{
template <class T>
std::complex<long double> wide_number(T value) {
  return {static_cast<long double>(value), 0};
}
template <class T>
std::complex<long double> wide_number(std::complex<T> value) {
  return {static_cast<long double>(value.real()), static_cast<long double>(value.imag())};
}
///@}

/// ‖computed − reference‖₂ / ‖reference‖₂ of two contiguous ranges of real or complex numbers,
/// summed in long double.
///
/// The result is never NaN, so `EXPECT_LE(relative_error(...), bound)` is safe. It is infinite if a
/// difference or the reference is not finite, or if only the reference is all zero. It is 0 if both
/// ranges are all zero or empty.
///
/// A single sum of random terms may nearly cancel, which makes its relative error large. Pass at
/// least four random sums.
/// @throws std::invalid_argument if the sizes differ
template <std::ranges::contiguous_range Computed, std::ranges::contiguous_range Reference>
double relative_error(const Computed& computed, const Reference& reference) {
  const std::span a(computed);
  const std::span b(reference);
  if (a.size() != b.size()) throw std::invalid_argument("relative_error: the sizes differ");
  long double difference = 0;
  long double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto expected = wide_number(b[i]);
    difference += std::norm(wide_number(a[i]) - expected);
    norm += std::norm(expected);
  }
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (!std::isfinite(difference) || !std::isfinite(norm)) return infinite;
  if (norm == 0) return difference == 0 ? 0.0 : infinite;
  return static_cast<double>(std::sqrt(difference / norm));
}

/// The error bound for results of type `T` that sum `terms` products. `T` is float, double or a
/// complex number of these.
///
/// The bound is 1e-5 for float and 1e-12 for double, times √(terms/1024) above 1024 terms.
template <class T>
double error_bound(std::size_t terms = 1) {
  constexpr bool single = std::is_same_v<T, float> || std::is_same_v<T, std::complex<float>>;
  constexpr bool is_double = std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>;
  static_assert(single || is_double);
  const double base = single ? 1e-5 : 1e-12;
  return terms > 1024 ? base * std::sqrt(static_cast<double>(terms) / 1024.0) : base;
}

}  // namespace sluice::test
