// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"

#include <sluice/operations/mel_filterbank.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

namespace sluice {

namespace {

// Slaney's scale: 200/3 Hz a mel up to 1 kHz, above it 27 mel for each factor of 6.4.
constexpr double linear_hertz_per_mel = 200.0 / 3.0;
constexpr double break_hertz = 1000.0;
constexpr double break_mel = break_hertz / linear_hertz_per_mel;
const double logarithmic_step = std::log(6.4) / 27.0;

// HTK's scale: 2595 · log10(1 + f / 700).
constexpr double htk_mel = 2595.0;
constexpr double htk_hertz = 700.0;

double mel_to_hertz(double mel, mel_scale scale) {
  if (scale == mel_scale::htk) return htk_hertz * (std::pow(10.0, mel / htk_mel) - 1);
  if (mel < break_mel) return mel * linear_hertz_per_mel;
  return break_hertz * std::exp((mel - break_mel) * logarithmic_step);
}

[[noreturn]] void fail(const std::string& description) {
  throw error(errc::invalid_argument, description);
}

/// `n_mels + 2` frequencies, equidistant in mel: filter i rises from the i-th, peaks at the next
/// and falls to the one after.
std::vector<double> filter_edges(std::int64_t n_mels, double fmin, double fmax, mel_scale scale) {
  if (n_mels < 1) fail("n_mels is " + std::to_string(n_mels) + ": at least 1 needed");
  if (n_mels > std::int64_t{1} << 40) fail("n_mels is " + std::to_string(n_mels) + ": too many");
  if (!(fmin >= 0)) fail("fmin is " + std::to_string(fmin) + " Hz: at least 0 needed");
  if (!(fmin < fmax) || !std::isfinite(fmax))
    fail("fmin is " + std::to_string(fmin) + " Hz and fmax " + std::to_string(fmax) +
         " Hz: fmin must be below fmax");
  const double first = hertz_to_mel(fmin, scale);
  const double last = hertz_to_mel(fmax, scale);
  const double step = (last - first) / static_cast<double>(n_mels + 1);
  std::vector<double> edges(static_cast<std::size_t>(n_mels) + 2);
  for (std::size_t i = 0; i + 1 < edges.size(); ++i)
    edges[i] = mel_to_hertz(first + step * static_cast<double>(i), scale);
  edges.back() = mel_to_hertz(last, scale);
  // The weights of a filter are up to twice the reciprocal of its width.
  constexpr double narrowest = 2.0 / std::numeric_limits<float>::max();
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    if (!(edges[i + 1] - edges[i] > narrowest))
      fail("fmin and fmax are too close together for " + std::to_string(n_mels) + " filters");
  }
  return edges;
}

}  // namespace

double hertz_to_mel(double hertz, mel_scale scale) {
  if (scale == mel_scale::htk) return htk_mel * std::log10(1 + hertz / htk_hertz);
  if (hertz < break_hertz) return hertz / linear_hertz_per_mel;
  return break_mel + std::log(hertz / break_hertz) / logarithmic_step;
}

host_tensor mel_filterbank(const mel_bands& bands) {
  const auto sample_rate = bands.sample_rate;
  const auto n_fft = bands.n_fft;
  const auto n_mels = bands.n_mels;
  const auto fmax = bands.fmax.value_or(sample_rate / 2);
  operations::require_enumerator("scale", bands.scale, mel_scale::htk);
  if (!(sample_rate > 0) || !std::isfinite(sample_rate))
    fail("sample_rate is " + std::to_string(sample_rate) + " Hz: more than 0 needed");
  if (n_fft < 1) fail("n_fft is " + std::to_string(n_fft) + ": at least 1 needed");
  if (fmax > sample_rate / 2)
    fail("fmax is " + std::to_string(fmax) + " Hz: at most half the sampling rate, " +
         std::to_string(sample_rate / 2) + " Hz, possible");
  const std::int64_t bins = 1 + n_fft / 2;
  // 2^40 weights are 4 TiB.
  if (n_mels > 0 && bins > (std::int64_t{1} << 40) / n_mels)
    fail(std::to_string(n_mels) + " filters of " + std::to_string(bins) +
         " weights do not fit into memory");
  const std::vector<double> edges = filter_edges(n_mels, bands.fmin, fmax, bands.scale);

  host_tensor weights(element_type::f32, {n_mels, bins});
  const double bin_width = sample_rate / static_cast<double>(n_fft);
  const auto elements = weights.values<float>();
  for (std::size_t band = 0; band < static_cast<std::size_t>(n_mels); ++band) {
    const double lower = edges[band];
    const double peak = edges[band + 1];
    const double upper = edges[band + 2];
    const double scale = bands.normalized ? 2.0 / (upper - lower) : 1.0;
    float* const row = elements.data() + band * static_cast<std::size_t>(bins);
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      const double hertz = static_cast<double>(bin) * bin_width;
      const double rising = (hertz - lower) / (peak - lower);
      const double falling = (upper - hertz) / (upper - peak);
      row[bin] = static_cast<float>(scale * std::max(0.0, std::min(rising, falling)));
    }
  }
  return weights;
}

host_tensor hann_window(std::int64_t n) {
  if (n < 0) fail("n is " + std::to_string(n) + ": at least 0 needed");
  if (n > std::int64_t{1} << 30) fail("n is " + std::to_string(n) + ": at most 2^30 possible");
  if (n == 1) return std::vector<float>{1.0F};
  std::vector<float> window(static_cast<std::size_t>(n));
  for (std::int64_t k = 0; k < n; ++k) {
    const double sine =
        std::sin(std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
    window[static_cast<std::size_t>(k)] = static_cast<float>(sine * sine);
  }
  return window;
}

}  // namespace sluice
