// SPDX-License-Identifier: Apache-2.0
#include "operations/fft/host_transform.hpp"

#include <kissfft/kissfft.hh>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace sluice::operations {

namespace {

// Above it a butterfly of that size costs more than Bluestein's two longer transforms.
constexpr std::size_t largest_butterfly = 100;

[[nodiscard]] std::size_t largest_prime_factor(std::size_t n) {
  std::size_t largest = 1;
  for (std::size_t p = 2; p <= n / p; ++p) {
    while (n % p == 0) {
      largest = p;
      n /= p;
    }
  }
  return n > largest ? n : largest;
}

/// The length of the transforms of Bluestein's algorithm.
[[nodiscard]] std::size_t padded_length(std::size_t length) {
  if (length > std::numeric_limits<std::size_t>::max() / 1024) {
    throw std::length_error("fft: the length is too large");
  }
  std::size_t power = 1;
  while (power < 2 * length - 1) power *= 2;
  return power;
}

template <class Real>
class kiss_transform final : public host_transform<Real> {
 public:
  kiss_transform(std::size_t length, int sign) : plan_(length, sign > 0) {}
  void operator()(const std::complex<Real>* in, std::complex<Real>* out) override {
    plan_.transform(in, out);
  }

 private:
  kissfft<Real> plan_;
};

template <class Real>
class bluestein_transform final : public host_transform<Real> {
 public:
  bluestein_transform(std::size_t length, int sign)
      : length_(length),
        padded_(padded_length(length)),
        forward_(padded_, false),
        inverse_(padded_, true),
        chirp_(length),
        filter_(padded_),
        a_(padded_),
        b_(padded_) {
    // chirp[k] = exp(sign πi k²/n); k² modulo 2n by its differences, which do not overflow.
    const std::size_t period = 2 * length;
    std::size_t square = 0;
    for (std::size_t k = 0; k < length; ++k) {
      chirp_[k] = root_of_unity<double>(sign, square, period);
      square = (square + (2 * k + 1)) % period;
    }
    a_[0] = std::conj(chirp_[0]);
    for (std::size_t k = 1; k < length; ++k) {
      a_[k] = a_[padded_ - k] = std::conj(chirp_[k]);
    }
    forward_.transform(a_.data(), filter_.data());
    for (auto& value : filter_) value /= static_cast<double>(padded_);
  }

  void operator()(const std::complex<Real>* in, std::complex<Real>* out) override {
    for (std::size_t k = 0; k < length_; ++k) a_[k] = std::complex<double>(in[k]) * chirp_[k];
    for (std::size_t k = length_; k < padded_; ++k) a_[k] = 0;
    forward_.transform(a_.data(), b_.data());
    for (std::size_t k = 0; k < padded_; ++k) b_[k] *= filter_[k];
    inverse_.transform(b_.data(), a_.data());
    for (std::size_t k = 0; k < length_; ++k) {
      const std::complex<double> value = a_[k] * chirp_[k];
      out[k] = {static_cast<Real>(value.real()), static_cast<Real>(value.imag())};
    }
  }

 private:
  std::size_t length_;
  std::size_t padded_;
  kissfft<double> forward_;
  kissfft<double> inverse_;
  std::vector<std::complex<double>> chirp_;
  std::vector<std::complex<double>> filter_;
  std::vector<std::complex<double>> a_;
  std::vector<std::complex<double>> b_;
};

}  // namespace

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
    const double turned = -sine;
    sine = cosine;
    cosine = turned;
  }
  return {static_cast<Real>(cosine), static_cast<Real>(sign < 0 ? -sine : sine)};
}

template <class Real>
std::unique_ptr<host_transform<Real>> make_host_transform(std::size_t length, int sign) {
  if (largest_prime_factor(length) > largest_butterfly) {
    return std::make_unique<bluestein_transform<Real>>(length, sign);
  }
  return std::make_unique<kiss_transform<Real>>(length, sign);
}

template <class Real>
std::size_t host_transform_bytes(std::size_t length) {
  if (largest_prime_factor(length) > largest_butterfly) {
    // The roots of both transforms, the filter, and two rows; the chirp.
    return (5 * padded_length(length) + length) * sizeof(std::complex<double>);
  }
  // One root of unity for each element; KissFFT's scratch memory is that of one butterfly.
  return length * sizeof(std::complex<Real>);
}

template <class Real>
host_real_transform<Real>::host_real_transform(std::size_t length, int sign)
    : length_(length),
      complex_(make_host_transform<Real>(length % 2 == 0 ? length / 2 : length, sign)) {
  if (length % 2 == 0) {
    roots_.resize(length / 2 + 1);
    for (std::size_t k = 0; k < roots_.size(); ++k) {
      roots_[k] = root_of_unity<Real>(sign, k, length);
    }
    scratch_.resize(length / 2);
  } else {
    scratch_.resize(2 * length);
  }
}

template <class Real>
void host_real_transform<Real>::forward(const Real* in, std::complex<Real>* out) {
  using complex = std::complex<Real>;
  if (length_ % 2 != 0) {
    complex* const row = scratch_.data();
    complex* const spectrum = row + length_;
    for (std::size_t j = 0; j < length_; ++j) row[j] = in[j];
    (*complex_)(row, spectrum);
    for (std::size_t k = 0; k <= length_ / 2; ++k) out[k] = spectrum[k];
    return;
  }
  // z[j] = x[2j] + i x[2j+1]; the spectra of the even and the odd samples are told apart by their
  // symmetry.
  const std::size_t half = length_ / 2;
  (*complex_)(reinterpret_cast<const complex*>(in), scratch_.data());
  const Real one_half = static_cast<Real>(0.5);
  for (std::size_t k = 0; k <= half; ++k) {
    const complex z = scratch_[k % half];
    const complex mirrored = std::conj(scratch_[(half - k) % half]);
    const complex even = one_half * (z + mirrored);
    const complex difference = one_half * (z - mirrored);
    const complex odd(difference.imag(), -difference.real());
    out[k] = even + roots_[k] * odd;
  }
  out[0].imag(0);
  out[half].imag(0);
}

template <class Real>
void host_real_transform<Real>::inverse(const std::complex<Real>* in, Real* out) {
  using complex = std::complex<Real>;
  if (length_ % 2 != 0) {
    complex* const spectrum = scratch_.data();
    complex* const row = spectrum + length_;
    spectrum[0] = in[0].real();
    for (std::size_t k = 1; k <= length_ / 2; ++k) {
      spectrum[k] = in[k];
      spectrum[length_ - k] = std::conj(in[k]);
    }
    (*complex_)(spectrum, row);
    for (std::size_t j = 0; j < length_; ++j) out[j] = row[j].real();
    return;
  }
  const std::size_t half = length_ / 2;
  for (std::size_t k = 0; k < half; ++k) {
    complex bin = in[k];
    complex mirrored = std::conj(in[half - k]);
    if (k == 0) {
      bin.imag(0);
      mirrored.imag(0);
    }
    const complex odd = roots_[k] * (bin - mirrored);
    scratch_[k] = bin + mirrored + complex(-odd.imag(), odd.real());
  }
  (*complex_)(scratch_.data(), reinterpret_cast<complex*>(out));
}

template std::complex<float> root_of_unity<float>(int, std::size_t, std::size_t);
template std::complex<double> root_of_unity<double>(int, std::size_t, std::size_t);
template std::unique_ptr<host_transform<float>> make_host_transform<float>(std::size_t, int);
template std::unique_ptr<host_transform<double>> make_host_transform<double>(std::size_t, int);
template std::size_t host_transform_bytes<float>(std::size_t);
template std::size_t host_transform_bytes<double>(std::size_t);
template class host_real_transform<float>;
template class host_real_transform<double>;

}  // namespace sluice::operations
