// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/fft/dft.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace sluice::test {

// The reference of the filterbank works the other way round: it maps the frequency of a bin into
// mel by integrating the scale's slope, finds the filters around it, and has the edges from a
// bisection instead of the inverse formula.

/// Slaney's scale as his toolbox states it: 15 filters' worth up to 1 kHz, 66.67 Hz apart, then
/// each 1.0711703 times (6.4 to the power 1/27) the one before.
inline long double reference_mel(long double hertz) {
  if (hertz <= 1000) return hertz * 3 / 200;
  return 15 + 27 * std::log2(hertz / 1000) / std::log2(6.4L);
}

inline long double reference_hertz(long double mel) {
  long double low = 0;
  long double high = 1e9L;
  for (int i = 0; i < 200; ++i) {
    const long double middle = (low + high) / 2;
    (reference_mel(middle) < mel ? low : high) = middle;
  }
  return low;
}

inline std::vector<double> reference_filterbank(double rate, std::int64_t n_fft,
                                                std::int64_t n_mels, double fmin, double fmax) {
  const std::int64_t bins = 1 + n_fft / 2;
  std::vector<long double> edges;
  for (std::int64_t i = 0; i < n_mels + 2; ++i)
    edges.push_back(
        reference_hertz(reference_mel(fmin) + (reference_mel(fmax) - reference_mel(fmin)) *
                                                  static_cast<long double>(i) /
                                                  static_cast<long double>(n_mels + 1)));
  std::vector<double> weights(static_cast<std::size_t>(n_mels * bins), 0.0);
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    const long double hertz =
        static_cast<long double>(bin) * rate / static_cast<long double>(n_fft);
    for (std::size_t band = 0; band < static_cast<std::size_t>(n_mels); ++band) {
      const long double low = edges[band];
      const long double peak = edges[band + 1];
      const long double high = edges[band + 2];
      long double height = 0;
      if (hertz > low && hertz <= peak) height = (hertz - low) / (peak - low);
      if (hertz > peak && hertz < high) height = (high - hertz) / (high - peak);
      weights[band * static_cast<std::size_t>(bins) + static_cast<std::size_t>(bin)] =
          static_cast<double>(2 * height / (high - low));
    }
  }
  return weights;
}

/// What to compute from a recording.
struct mel_reference_parameters {
  double sample_rate = 0;
  std::int64_t n_fft = 2048;
  std::int64_t hop = 512;
  std::int64_t n_mels = 128;
  double fmin = 0;
  double fmax = 0;
};

/// A mel spectrogram in double precision by the definitions: zeros written around the recording, a
/// sum over all samples for each bin of each frame, a sum over all bins for each band. Row-major,
/// n_mels rows.
inline std::vector<double> reference_mel_spectrogram(const std::vector<float>& samples,
                                                     const mel_reference_parameters& p) {
  const auto n = static_cast<std::size_t>(p.n_fft);
  const auto hop = static_cast<std::size_t>(p.hop);
  const auto bands = static_cast<std::size_t>(p.n_mels);
  const std::size_t bins = n / 2 + 1;
  std::vector<double> padded(n / 2, 0.0);
  padded.insert(padded.end(), samples.begin(), samples.end());
  padded.insert(padded.end(), n / 2, 0.0);
  const std::size_t frames = (padded.size() - n) / hop + 1;

  const dft_reference dft(n, -1);
  std::vector<double> window(n, 1.0);
  for (std::size_t j = 0; j < n && n > 1; ++j) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n);
    window[j] = (1 - std::cos(turn)) / 2;
  }
  const auto filters = reference_filterbank(p.sample_rate, p.n_fft, p.n_mels, p.fmin, p.fmax);

  std::vector<double> mel(bands * frames, 0.0);
  std::vector<double> windowed(n);
  for (std::size_t frame = 0; frame < frames; ++frame) {
    for (std::size_t j = 0; j < n; ++j) windowed[j] = window[j] * padded[frame * hop + j];
    for (std::size_t bin = 0; bin < bins; ++bin) {
      const auto power = static_cast<double>(std::norm(dft.bin(windowed.data(), bin)));
      for (std::size_t band = 0; band < bands; ++band)
        mel[band * frames + frame] += filters[band * bins + bin] * power;
    }
  }
  return mel;
}

}  // namespace sluice::test
