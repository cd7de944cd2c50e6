// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/extents.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

/// The references of `demo`: each operation in double precision, by its definition. They share no
/// code with the actors and use no library.
namespace sluice::cli::reference {

/// ‖computed − expected‖₂ / ‖expected‖₂. Infinite if the sizes differ or a value is not finite.
inline double relative_error(std::span<const float> computed, std::span<const double> expected) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (computed.size() != expected.size()) return infinite;
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double d = static_cast<double>(computed[i]) - expected[i];
    difference += d * d;
    norm += expected[i] * expected[i];
  }
  if (!std::isfinite(difference) || !std::isfinite(norm)) return infinite;
  if (norm == 0) return difference == 0 ? 0 : infinite;
  return std::sqrt(difference / norm);
}

/// A (m × k) times B (k × n), row-major.
inline std::vector<double> gemm(std::size_t m, std::size_t n, std::size_t k,
                                std::span<const float> a, std::span<const float> b) {
  std::vector<double> c(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t p = 0; p < k; ++p) {
      const double factor = a[i * k + p];
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += factor * b[p * n + j];
    }
  return c;
}

/// max(0, cross-correlation + bias) with stride and dilation 1, one group and zeros of width
/// `padding` around the input.
inline std::vector<double> conv2d_relu(const extents& x_shape, const extents& w_shape,
                                       std::int64_t padding, std::span<const float> x,
                                       std::span<const float> w, std::span<const float> bias) {
  const auto channels = x_shape[1], h = x_shape[2], v = x_shape[3];
  const auto filters = w_shape[0], taps_h = w_shape[2], taps_w = w_shape[3];
  const std::int64_t height = h + 2 * padding - taps_h + 1;
  const std::int64_t width = v + 2 * padding - taps_w + 1;
  std::vector<double> y;
  y.reserve(static_cast<std::size_t>(x_shape[0] * filters * height * width));
  for (std::int64_t n = 0; n < x_shape[0]; ++n)
    for (std::int64_t k = 0; k < filters; ++k)
      for (std::int64_t row = 0; row < height; ++row)
        for (std::int64_t column = 0; column < width; ++column) {
          double sum = bias[static_cast<std::size_t>(k)];
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t r = 0; r < taps_h; ++r)
              for (std::int64_t s = 0; s < taps_w; ++s) {
                const std::int64_t i = row + r - padding;
                const std::int64_t j = column + s - padding;
                if (i < 0 || i >= h || j < 0 || j >= v) continue;
                sum += static_cast<double>(
                           x[static_cast<std::size_t>(((n * channels + c) * h + i) * v + j)]) *
                       w[static_cast<std::size_t>(((k * channels + c) * taps_h + r) * taps_w + s)];
              }
          y.push_back(sum > 0 ? sum : 0);
        }
  return y;
}

/// The complex numbers exp(-2πi j/n), j = 0 ... n - 1.
inline std::vector<std::complex<double>> roots_of_unity(std::size_t n) {
  std::vector<std::complex<double>> roots(n);
  for (std::size_t j = 0; j < n; ++j)
    roots[j] =
        std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n));
  return roots;
}

/// The bins 0 ... length/2 of each row, real and imaginary parts in turn.
inline std::vector<double> half_spectra(std::size_t length, std::span<const float> rows) {
  const auto roots = roots_of_unity(length);
  std::vector<double> spectra;
  for (std::size_t row = 0; row + length <= rows.size(); row += length)
    for (std::size_t bin = 0; bin <= length / 2; ++bin) {
      double real = 0;
      double imaginary = 0;
      std::size_t turned = 0;  // j · bin modulo length
      for (std::size_t j = 0; j < length; ++j) {
        real += rows[row + j] * roots[turned].real();
        imaginary += rows[row + j] * roots[turned].imag();
        turned += bin;
        if (turned >= length) turned -= length;
      }
      spectra.push_back(real);
      spectra.push_back(imaginary);
    }
  return spectra;
}

/// Word `i` of the sequence of `seed`: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
/// easy as 1, 2, 3", 2011), in cuRAND's default order of 65,536 interleaved subsequences.
inline std::uint32_t philox_word(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t block = i / 4 / 65'536;
  std::uint32_t counter[4] = {static_cast<std::uint32_t>(block),
                              static_cast<std::uint32_t>(block >> 32),
                              static_cast<std::uint32_t>(i / 4 % 65'536), 0};
  std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t odd = std::uint64_t{0xCD9E8D57} * counter[2];
    const std::uint32_t next[4] = {static_cast<std::uint32_t>(odd >> 32) ^ counter[1] ^ key[0],
                                   static_cast<std::uint32_t>(odd),
                                   static_cast<std::uint32_t>(even >> 32) ^ counter[3] ^ key[1],
                                   static_cast<std::uint32_t>(even)};
    for (int lane = 0; lane < 4; ++lane) counter[lane] = next[lane];
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter[i % 4];
}

/// Elements [offset, offset + count) of the f32 normal numbers of `seed`. Box–Muller turns two
/// neighbouring words into two elements, the sine first.
inline std::vector<double> normal(std::uint64_t seed, std::uint64_t offset, std::size_t count) {
  const auto uniform = [&](std::uint64_t i) {
    return (static_cast<double>(philox_word(seed, i)) + 0.5) / 4294967296.0;
  };
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t element = offset + i;
    const double radius = std::sqrt(-2 * std::log(uniform(element & ~std::uint64_t{1})));
    const double angle = 2 * std::numbers::pi * uniform(element | 1);
    values[i] = radius * (element % 2 == 0 ? std::sin(angle) : std::cos(angle));
  }
  return values;
}

/// The transform of every `step`-th value from `first` on, by the algorithm of Cooley and Tukey.
/// The number of `values` is a power of two, and `roots` are its roots of unity.
inline std::vector<std::complex<double>> fft(std::span<const double> values,
                                             std::span<const std::complex<double>> roots,
                                             std::size_t first = 0, std::size_t step = 1) {
  const std::size_t n = values.size() / step;
  if (n == 1) return {values[first]};
  const auto even = fft(values, roots, first, 2 * step);
  const auto odd = fft(values, roots, first + step, 2 * step);
  std::vector<std::complex<double>> bins(n);
  for (std::size_t k = 0; k < n / 2; ++k) {
    const auto turned = roots[k * step] * odd[k];
    bins[k] = even[k] + turned;
    bins[k + n / 2] = even[k] - turned;
  }
  return bins;
}

/// The inverse of Slaney's mel scale: 200/3 Hz a mel up to 1 kHz, then a factor of 6.4 in 27 mel.
inline double hertz_of_mel(double mel) {
  return mel < 15 ? mel * 200 / 3 : 1000 * std::pow(6.4, (mel - 15) / 27);
}

/// The power of a recording in `bands` mel bands from 0 Hz to half its sampling rate, as
/// `librosa.feature.melspectrogram` computes it. `n_fft` is a power of two.
inline std::vector<double> mel_spectrogram(std::span<const float> samples, double sample_rate,
                                           std::size_t n_fft, std::size_t hop, std::size_t bands) {
  const std::size_t frames = 1 + samples.size() / hop;
  const double top = sample_rate / 2;
  const double top_mel =
      top < 1000 ? top * 3 / 200 : 15 + 27 * std::log(top / 1000) / std::log(6.4);
  const auto edge = [&](std::size_t i) {
    return hertz_of_mel(top_mel * static_cast<double>(i) / static_cast<double>(bands + 1));
  };
  std::vector<double> mel(bands * frames, 0.0);
  const auto roots = roots_of_unity(n_fft);
  const double bin_width = sample_rate / static_cast<double>(n_fft);
  std::vector<double> frame(n_fft);
  for (std::size_t f = 0; f < frames; ++f) {
    for (std::size_t j = 0; j < n_fft; ++j) {
      const std::size_t index = f * hop + j;  // index into the recording after n_fft / 2 zeros
      const bool inside = index >= n_fft / 2 && index - n_fft / 2 < samples.size();
      const double window = 0.5 - 0.5 * roots[j].real();
      frame[j] = inside ? window * samples[index - n_fft / 2] : 0.0;
    }
    const auto bins = fft(frame, roots);
    for (std::size_t band = 0; band < bands; ++band) {
      const double low = edge(band);
      const double peak = edge(band + 1);
      const double high = edge(band + 2);
      const auto last = std::min(n_fft / 2, static_cast<std::size_t>(high / bin_width));
      for (auto bin = static_cast<std::size_t>(low / bin_width); bin <= last; ++bin) {
        const double hertz = static_cast<double>(bin) * bin_width;
        const double weight =
            hertz <= peak ? (hertz - low) / (peak - low) : (high - hertz) / (high - peak);
        if (weight > 0) mel[band * frames + f] += 2 / (high - low) * weight * std::norm(bins[bin]);
      }
    }
  }
  return mel;
}

}  // namespace sluice::cli::reference
