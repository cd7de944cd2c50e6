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

namespace detail {

template <class T>
std::complex<long double> widen(T value) {
  return {static_cast<long double>(value), 0};
}
template <class T>
std::complex<long double> widen(std::complex<T> value) {
  return {static_cast<long double>(value.real()), static_cast<long double>(value.imag())};
}

}  // namespace detail

/// ‖computed − reference‖₂ / ‖reference‖₂ over contiguous ranges of real or complex numbers of one
/// size, summed in long double.
///
/// Made to be compared by `EXPECT_LE(relative_error(...), bound)`: the result is never NaN. It is
/// infinite when a difference or the reference is not finite, or when the reference is all zero and
/// the computed values are not; 0 when both are all zero or empty.
///
/// One sum of random terms may nearly cancel out, and is then far off in relation to what is left
/// of it: give it four random sums or more.
/// @throws std::invalid_argument when the sizes differ
template <std::ranges::contiguous_range Computed, std::ranges::contiguous_range Reference>
double relative_error(const Computed& computed, const Reference& reference) {
  const std::span a(computed);
  const std::span b(reference);
  if (a.size() != b.size()) throw std::invalid_argument("relative_error: the sizes differ");
  long double difference = 0;
  long double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto expected = detail::widen(b[i]);
    difference += std::norm(detail::widen(a[i]) - expected);
    norm += std::norm(expected);
  }
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (!std::isfinite(difference) || !std::isfinite(norm)) return infinite;
  if (norm == 0) return difference == 0 ? 0.0 : infinite;
  return static_cast<double>(std::sqrt(difference / norm));
}

/// The bound for results of element type `T` (float and double, also as parts of complex numbers)
/// that sum `terms` products: 1e-5 or 1e-12, times √(terms/1024) above 1024 terms.
template <class T>
double error_bound(std::size_t terms = 1) {
  constexpr bool single = std::is_same_v<T, float> || std::is_same_v<T, std::complex<float>>;
  constexpr bool is_double = std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>;
  static_assert(single || is_double);
  const double base = single ? 1e-5 : 1e-12;
  return terms > 1024 ? base * std::sqrt(static_cast<double>(terms) / 1024.0) : base;
}

}  // namespace sluice::test
