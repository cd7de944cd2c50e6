// SPDX-License-Identifier: Apache-2.0
#include "operations/fft/fft_tables.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace sluice::operations {

std::size_t largest_prime_factor(std::size_t n) {
  std::size_t largest = 1;
  for (std::size_t p = 2; p <= n / p; ++p) {
    while (n % p == 0) {
      largest = p;
      n /= p;
    }
  }
  return n > largest ? n : largest;
}

namespace {

/// The radix of the next pass. Large ones are first, so that passes soon have as many butterflies
/// side by side as a vector has lanes.
std::size_t next_radix(std::size_t length) {
  std::size_t power = 1;
  std::size_t odd = length;
  for (; odd % 2 == 0; odd /= 2) power *= 2;
  const std::size_t prime = largest_prime_factor(odd);
  if (prime > 5) return prime;
  if (power % 8 == 0 && power != 16) return 8;
  if (prime == 5) return prime;
  if (power % 4 == 0) return 4;
  return prime == 3 ? prime : power;
}

}  // namespace

std::size_t padded_length(std::size_t length) {
  if (length > std::numeric_limits<std::size_t>::max() / 1024) {
    throw std::length_error("fft: the length is too large");
  }
  std::size_t power = 1;
  while (power < 2 * length - 1) power *= 2;
  return power;
}

template <class Real>
std::complex<Real> root_of_unity(int sign, std::size_t numerator, std::size_t denominator) {
  // Reduced to an eighth of a turn, so that the double argument is good to its last bits.
  const double eighths = 8.0 * static_cast<double>(numerator) / static_cast<double>(denominator);
  const int quarter = static_cast<int>((eighths + 1.0) / 2.0);
  // numerator / denominator - quarter / 4, as one exact difference over one rounded quotient.
  const auto rest = static_cast<double>(
      (4.0L * static_cast<long double>(numerator) -
       static_cast<long double>(quarter) * static_cast<long double>(denominator)) /
      (4.0L * static_cast<long double>(denominator)));
  const double angle = 6.283185307179586476925 * rest;
  double cosine = std::cos(angle);
  double sine = std::sin(angle);
  for (int i = 0; i < (quarter & 3); ++i) {
    const double next_cosine = -sine;
    sine = cosine;
    cosine = next_cosine;
  }
  return {static_cast<Real>(cosine), static_cast<Real>(sign < 0 ? -sine : sine)};
}

template <class Real>
fft_passes<Real> make_passes(std::size_t length) {
  fft_passes<Real> passes;
  const auto append = [](std::vector<Real>& target, std::size_t numerator,
                         std::size_t denominator) {
    const auto root = root_of_unity<Real>(-1, numerator, denominator);
    target.push_back(root.real());
    target.push_back(root.imag());
  };
  std::size_t stride = 1;
  while (length > 1) {
    fft_pass<Real> pass;
    pass.radix = next_radix(length);
    pass.groups = length / pass.radix;
    pass.stride = stride;
    pass.twiddles.reserve(2 * pass.groups * (pass.radix - 1));
    for (std::size_t group = 0; group < pass.groups; ++group) {
      for (std::size_t k = 1; k < pass.radix; ++k) append(pass.twiddles, group * k, length);
    }
    if (pass.radix > 5 && pass.radix % 2 != 0) {
      for (std::size_t k = 0; k < pass.radix; ++k) append(pass.roots, k, pass.radix);
    }
    stride *= pass.radix;
    length = pass.groups;
    passes.push_back(std::move(pass));
  }
  return passes;
}

template std::complex<float> root_of_unity<float>(int, std::size_t, std::size_t);
template std::complex<double> root_of_unity<double>(int, std::size_t, std::size_t);
template fft_passes<float> make_passes<float>(std::size_t);
template fft_passes<double> make_passes<double>(std::size_t);

}  // namespace sluice::operations
