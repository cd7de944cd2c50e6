// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/host_tensor.hpp>

#include <cstdint>
#include <optional>

namespace sluice {

/// How frequencies become mel.
enum class mel_scale : std::uint8_t {
  slaney,  ///< linear below 1 kHz and logarithmic above: librosa's default
  htk,     ///< 2595 · log10(1 + f / 700): torchaudio's default
};

/// The bands of a mel spectrogram.
struct mel_bands {
  double sample_rate = 0;               ///< samples a second; required
  std::int64_t n_fft = 0;               ///< length of a frame; required
  std::int64_t n_mels = 128;            ///< number of bands
  double fmin = 0;                      ///< where the first band begins, in Hz
  std::optional<double> fmax{};         ///< where the last band ends, in Hz; half the sampling rate
  mel_scale scale = mel_scale::slaney;  ///< on which the centres are equidistant
  /// Whether each filter is scaled by 2 / (its width in Hz), so that all have the same area.
  /// Otherwise the peak of each is 1.
  bool normalized = true;
};

/// The triangular filters that turn the power spectrum of an FFT into mel bands: f32, of shape
/// [n_mels, n_fft/2 + 1], the lowest band first.
///
///     const auto filters = mel_filterbank({.sample_rate = 16000, .n_fft = 512, .n_mels = 40});
///     const auto f = p.constant("filters", filters);
///     const auto mel = p.add("mel", gemm{.a = power, .b = f.transposed()});
///
/// With `slaney` and `normalized` it is `librosa.filters.mel` with its defaults, and with `htk` and
/// without `normalized` that of torchaudio's `MelScale`. Computed in f64 and rounded once. A band
/// that is narrower than the distance of two bins may have no weight at all.
/// @throws error `invalid_argument` with the name of the member unless sample_rate > 0, n_fft ≥ 1,
/// n_mels ≥ 1 and 0 ≤ fmin < fmax ≤ sample_rate / 2, or if the filters are too many for the memory
[[nodiscard]] SLUICE_EXPORT host_tensor mel_filterbank(const mel_bands& bands);

/// A frequency in Hz on a mel scale.
[[nodiscard]] SLUICE_EXPORT double hertz_to_mel(double hertz, mel_scale scale = mel_scale::slaney);

/// The Hann window of one period of `n` samples, sin²(π · k / n), as f32: what spectral analysis
/// uses, unlike the symmetric window of filter design. The window of one sample is 1. Computed in
/// f64 and rounded once.
/// @throws error `invalid_argument` if `n` is negative
[[nodiscard]] SLUICE_EXPORT host_tensor hann_window(std::int64_t n);

}  // namespace sluice
