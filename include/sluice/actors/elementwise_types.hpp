// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/element_type.hpp>

#include <cstddef>

namespace sluice {

/// How a signal is cut into overlapping frames of a short-time Fourier transform. Frame f is
/// centred: it begins n_fft/2 samples before sample f * hop; what lies outside the signal is 0.
struct frame_layout {
  std::size_t samples = 0;  ///< length of the signal
  std::size_t n_fft = 0;    ///< length of a frame
  std::size_t hop = 0;      ///< samples from one frame to the next
};

/// The number of frames that fit into the signal padded by n_fft/2 zeros on both sides:
/// 1 + samples/hop for an even n_fft. 0 for a signal too short for one frame.
/// @throws error `invalid_argument`: n_fft or hop is 0, or a size overflows
[[nodiscard]] SLUICE_EXPORT std::size_t frame_count(const frame_layout& layout);

/// How power becomes decibels: max(10·log10(max(S, amin)) − 10·log10(max(reference, amin)),
/// −top_db), as librosa's `power_to_db` for `ref=np.max` when the reference is the maximum of S.
struct decibel_options {
  double amin = 1e-10;  ///< > 0: what is smaller counts as this
  double top_db = 80;  ///< ≥ 0: how far below the reference the floor lies; infinity for no floor
};

}  // namespace sluice
