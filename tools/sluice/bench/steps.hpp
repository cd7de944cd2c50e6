// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "examples/mel_spectrogram/mel_filterbank.hpp"
#include "tools/sluice/arrays.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/fft.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/rng.hpp>
#include <sluice/operations/spectral.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice::cli {

/// The tensors that the steps share. They have been written.
class operands_of_steps {
 public:
  explicit operands_of_steps(session& current) : session_(current) {}

  [[nodiscard]] tensor values(const std::vector<float>& values, const extents& shape) {
    return tensor(upload_values(session_, values)).reshape(shape);
  }
  [[nodiscard]] host_tensor on_host(const tensor& x) {
    return session_.ask<host_tensor>(session_.device().actor(), download{.x = x});
  }
  [[nodiscard]] tensor noise(const extents& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> numbers(count);
    for (float& number : numbers) number = uniform(random_);
    return values(numbers, shape);
  }

 private:
  session& session_;
  std::mt19937_64 random_;
};

/// A mel spectrogram with 128 bands of 1 s at 16 kHz: four steps.
class mel_steps {
 public:
  static constexpr const char* name = "mel spectrogram, 1 s at 16 kHz";
  static constexpr const char* key = "mel";
  static constexpr const char* result = "mel";  // the last step

  explicit mel_steps(session& current) : make_(current) {
    auto& make = make_;
    window_ = make.values(examples::periodic_hann(n_fft), {n_fft});
    filterbank_ = make.values(examples::mel_filterbank(samples, n_fft, bands, 0, samples / 2.0),
                              {bands, 1 + n_fft / 2});
  }
  /// A new clip.
  [[nodiscard]] tensor input() { return make_.noise({samples}); }
  /// New clips, one behind the other.
  [[nodiscard]] tensor clips(std::int64_t count) { return make_.noise({count, samples}); }
  /// A new clip of a random length from half a second to one.
  [[nodiscard]] tensor clip_of_random_length() {
    return make_.noise({1, std::uniform_int_distribution(samples / 2, samples)(random_)});
  }
  [[nodiscard]] host_tensor on_host(const tensor& clip) { return make_.on_host(clip); }
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

  operands_of_steps make_;
  std::mt19937_64 random_;
  tensor window_;
  tensor filterbank_;
};

/// Eight steps on small operands.
class small_steps {
 public:
  static constexpr const char* name = "eight small steps";
  static constexpr const char* key = "small";
  static constexpr const char* result = "reduced";  // the last step

  explicit small_steps(session& current) : make_(current) { weights_ = make_.noise({129, 16}); }
  /// A new matrix.
  [[nodiscard]] tensor input() { return make_.noise({64, 64}); }
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
  operands_of_steps make_;
  tensor weights_;
};

}  // namespace sluice::cli
