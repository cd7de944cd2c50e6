// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "examples/mel_spectrogram/mel_filterbank.hpp"
#include "tools/sluice/bench/random_operands.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/fft.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/rng.hpp>
#include <sluice/operations/spectral.hpp>

#include <cstddef>
#include <cstdint>

namespace sluice::cli {

/// A mel spectrogram with 128 bands of 1 s at 16 kHz: four steps.
class mel_steps {
 public:
  static constexpr const char* name = "mel spectrogram, 1 s at 16 kHz";
  static constexpr const char* key = "mel";
  static constexpr const char* result = "mel";  // the last step

  explicit mel_steps(session& current)
      : random_(current),
        window_(upload_values(current, examples::periodic_hann(n_fft))),
        filterbank_(tensor(upload_values(current, examples::mel_filterbank(samples, n_fft, bands, 0,
                                                                           samples / 2.0)))
                        .reshape({bands, 1 + n_fft / 2})) {}
  /// A new clip.
  [[nodiscard]] tensor input() { return random_.make({samples}); }
  /// New clips, one behind the other.
  [[nodiscard]] tensor clips(std::int64_t count) { return random_.make({count, samples}); }
  /// A new clip of a random length from half a second to one.
  [[nodiscard]] tensor clip_of_random_length() {
    return random_.make({1, random_.integer(samples / 2, samples)});
  }
  /// Adds the steps to a `program_builder` or to `plain_calls`.
  template <class To, class Value>
  [[nodiscard]] Value add_to(To& to, const Value& clip) const {
    const auto frames =
        to.add("frames", frame_signal{.signal = clip, .window = window_, .hop = 512});
    const auto spectrum = to.add("spectrum", rfft{.x = frames});
    const auto power = to.add("power", power_spectrum{.x = spectrum});
    return to.add("mel", gemm{.a = filterbank_, .b = power.transposed()});
  }

 private:
  static constexpr std::int64_t samples = 16000;
  static constexpr std::int64_t n_fft = 2048;
  static constexpr std::int64_t bands = 128;

  random_operands random_;
  tensor window_;
  tensor filterbank_;
};

/// Eight steps on small operands.
class small_steps {
 public:
  static constexpr const char* name = "eight small steps";
  static constexpr const char* key = "small";
  static constexpr const char* result = "reduced";  // the last step

  explicit small_steps(session& current) : random_(current), weights_(random_.make({129, 16})) {}
  /// A new matrix.
  [[nodiscard]] tensor input() { return random_.make({64, 64}); }
  template <class To, class Value>
  [[nodiscard]] Value add_to(To& to, const Value& x) const {
    const auto noise = to.add("noise", random_uniform{.shape = extents{64, 64}, .seed = 1});
    const auto scaled = to.add("scaled", affine{.x = noise, .factor = 2, .offset = -1});
    const auto product = to.add("product", gemm{.a = scaled, .b = x});
    const auto sum = to.add("sum", sluice::add{.a = product, .b = x});
    const auto spectrum = to.add("spectrum", rfft{.x = sum.reshape({16, 256})});
    const auto power = to.add("power", power_spectrum{.x = spectrum});
    const auto features = to.add("features", gemm{.a = power, .b = weights_});
    return to.add("reduced", reduce{.x = features, .axes = extents{0}});
  }

 private:
  random_operands random_;
  tensor weights_;
};

}  // namespace sluice::cli
