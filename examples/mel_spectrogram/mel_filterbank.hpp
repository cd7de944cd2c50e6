// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::examples {

/// A frequency on Slaney's mel scale, which is linear below 1 kHz and logarithmic above.
///
/// Source: M. Slaney, "Auditory Toolbox: Version 2", Interval Research Corporation, 1998.
[[nodiscard]] double hertz_to_mel(double hertz);

/// The triangular filters that turn the power spectrum of an FFT of `n_fft` samples into `n_mels`
/// bands, as `librosa.filters.mel` makes them with its defaults: centres equidistant on Slaney's
/// mel scale (linear below 1 kHz, logarithmic above) from `fmin` to `fmax` in Hz, each filter
/// scaled by 2 / (its width in Hz) so that every band has the same area. Row-major, `n_mels` rows
/// of 1 + n_fft/2 weights; row 0 is the lowest band. Computed in double and rounded once.
///
/// A band narrower than the distance of two FFT bins may have no weight at all. Throws
/// `invalid_argument`, naming the argument, unless n_fft >= 1, n_mels >= 1, sample_rate > 0 and
/// 0 <= fmin < fmax <= sample_rate / 2, and when the filters would not fit into memory.
[[nodiscard]] std::vector<float> mel_filterbank(double sample_rate, std::int64_t n_fft,
                                                std::int64_t n_mels, double fmin, double fmax);

/// The Hann window of one period of `n` samples, w[k] = sin^2(pi k / n): what spectral analysis
/// uses, unlike the symmetric window of filter design. As in SciPy, the window of one sample is 1.
/// Computed in double and rounded once. Throws `invalid_argument` when `n` is negative.
[[nodiscard]] std::vector<float> periodic_hann(std::int64_t n);

}  // namespace sluice::examples
