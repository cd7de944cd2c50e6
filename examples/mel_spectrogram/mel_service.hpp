// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/device.hpp>

#include <cstdint>
#include <optional>

namespace sluice::examples {

/// Asks for the mel spectrograms of recordings: how much power their sound has in each of `n_mels`
/// bands of frequency, moment by moment. What `librosa.feature.melspectrogram` computes with its
/// defaults: frames of `n_fft` samples under a periodic Hann window, centred on every `hop`-th
/// sample with zeros outside the recording, |FFT|², then the bands of `mel_filterbank`.
///
/// The reply is one f32 tensor of shape [recordings, n_mels, 1 + samples/hop] (for an even n_fft),
/// the lowest band first, row-major.
///
/// Power above 3.4e38, the largest f32, is infinity. Beyond the magnitude 1e25 of the FFT, which a
/// sine of amplitude 1e22 reaches with 2048 samples per frame, the result may hold NaN: scale such
/// recordings. Decibels are finite up to there. Power below 1e-26 loses accuracy.
///
/// Errors: `invalid_argument` (no samples, a size or a frequency out of its range), and the errors
/// of a run: `out_of_memory`, `upstream_failed`, `device_lost` ...
struct mel_spectrogram {
  double sample_rate = 0;  ///< samples per second
  /// The recordings in f32, on the host or on the device, of shape [recordings, samples] or
  /// [samples].
  run_input samples{};
  std::int64_t n_fft = 2048;
  std::int64_t hop = 512;
  std::int64_t n_mels = 128;
  double fmin = 0;               ///< in Hz
  std::optional<double> fmax{};  ///< in Hz; half the sampling rate when left out
  /// Asks for decibels below the loudest value of each recording instead of power.
  std::optional<decibel_options> decibels{};
};

/// The service: an actor that makes a program of each set of parameters, and has the program actor
/// of a device run it. Many requests may be in flight at a time: a GPU computes those that wait
/// together. Without `decibels` their recordings may have different lengths.
using mel_service = caf::typed_actor<takes<tensors(mel_spectrogram)>>;

/// Starts a mel service over the program actor of `device`, on a thread of its own. It ends when
/// its last handle is dropped.
/// @throws error what `device` answers when it is asked for its program actor
[[nodiscard]] mel_service spawn_mel_service(caf::actor_system& system, const device_actor& device);

}  // namespace sluice::examples

SLUICE_MESSAGES(sluice_mel, 1910, sluice::examples::mel_spectrogram)
