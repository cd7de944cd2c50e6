// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/plain_calls.hpp"

#include <sluice/actors/program.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/fft.hpp>
#include <sluice/operations/mel_filterbank.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/rng.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/spectral.hpp>

namespace sluice::cli {

/// A mel spectrogram with 128 bands of 1 s at 16 kHz: four steps.
class mel_steps {
 public:
  static constexpr const char* name = "mel spectrogram, 1 s at 16 kHz";
  static constexpr const char* key = "mel";
  static constexpr const char* result = "mel";  // the last step

  explicit mel_steps(session& current)
      : session_(current),
        window_(upload_values(current, hann_window(n_fft).to_vector<float>())),
        filterbank_(tensor(upload_values(current, mel_filterbank({.sample_rate = samples,
                                                                  .n_fft = n_fft,
                                                                  .n_mels = bands})
                                                      .to_vector<float>()))
                        .reshape({bands, 1 + n_fft / 2})) {}
  /// A new clip.
  [[nodiscard]] tensor input() const { return random_tensor(session_, {samples}); }
  /// New clips, one behind the other.
  [[nodiscard]] tensor clips(std::int64_t count) const {
    return random_tensor(session_, {count, samples});
  }
  /// A new clip of a random length from half a second to one.
  [[nodiscard]] tensor clip_of_random_length() const {
    return random_tensor(session_,
                         {1, std::uniform_int_distribution(samples / 2, samples)(random_source())});
  }
  /// Adds the steps to a `program_builder` or to `plain_calls`.
  template <class Steps, class Value>
  [[nodiscard]] Value add_to(Steps& steps, const Value& clip) const {
    const auto frames =
        steps.add("frames", frame_signal{.signal = clip, .window = window_, .hop = 512});
    const auto spectrum = steps.add("spectrum", rfft{.x = frames});
    const auto power = steps.add("power", power_spectrum{.x = spectrum});
    return steps.add("mel", gemm{.a = filterbank_, .b = power.transposed()});
  }

 private:
  static constexpr std::int64_t samples = 16000;
  static constexpr std::int64_t n_fft = 2048;
  static constexpr std::int64_t bands = 128;

  session& session_;
  tensor window_;
  tensor filterbank_;
};

/// Eight steps on small operands.
class small_steps {
 public:
  static constexpr const char* name = "eight small steps";
  static constexpr const char* key = "small";
  static constexpr const char* result = "reduced";  // the last step

  explicit small_steps(session& current)
      : session_(current), weights_(random_tensor(session_, {129, 16})) {}
  /// A new matrix.
  [[nodiscard]] tensor input() const { return random_tensor(session_, {64, 64}); }
  template <class Steps, class Value>
  [[nodiscard]] Value add_to(Steps& steps, const Value& x) const {
    const auto noise = steps.add("noise", random_uniform{.shape = extents{64, 64}, .seed = 1});
    const auto scaled = steps.add("scaled", affine{.x = noise, .factor = 2, .offset = -1});
    const auto product = steps.add("product", gemm{.a = scaled, .b = x});
    const auto sum = steps.add("sum", sluice::add(product, x));
    const auto spectrum = steps.add("spectrum", rfft{.x = sum.reshape({16, 256})});
    const auto power = steps.add("power", power_spectrum{.x = spectrum});
    const auto features = steps.add("features", gemm{.a = power, .b = weights_});
    return steps.add("reduced", reduce{.x = features, .axes = extents{0}});
  }

 private:
  session& session_;
  tensor weights_;
};

/// Adds the steps for an input to plain calls, which first copy it to the device if it is on the
/// host. Returns the result.
template <class Steps>
tensor add_plain_steps(plain_calls& calls, const Steps& steps, const run_input& input) {
  return steps.add_to(calls, input.on_host() ? calls.add_copy(input.on_host()) : input.on_device());
}

/// The steps as plain calls for each of `inputs`.
template <class Steps, class Inputs>
std::unique_ptr<plain_calls> plain_steps(device_runtime& runtime, const Steps& steps,
                                         const Inputs& inputs) {
  return plain_sets(runtime, inputs, [&](plain_calls& calls, const run_input& input) {
    calls.share_memory_except(Steps::result);
    return add_plain_steps(calls, steps, input);
  });
}

/// The steps as a program with one input, which has these `marks`, such as `per_request`.
template <class Steps, class... Marks>
program program_of(const Steps& steps, std::size_t max_in_batch, Marks... marks) {
  program_builder builder;
  const auto result = steps.add_to(builder, builder.input("x", marks...));
  return std::move(builder).build({result}, {.max_in_batch = max_in_batch});
}

/// A run for each of `inputs`.
template <class Input>
std::vector<sluice::run> runs_of(const program& steps, const std::vector<Input>& inputs) {
  std::vector<sluice::run> runs;
  runs.reserve(inputs.size());
  for (const auto& input : inputs) runs.push_back({steps, {input}});
  return runs;
}

/// Compares results of runs with those of plain calls. @throws error as `check_sample`
template <class Steps>
void check_runs(bench_run& run, const Steps& steps, const std::vector<sluice::run>& runs) {
  check_sample<tensors>(
      run, run.current.device().programs(), runs,
      [&](plain_calls& calls, const sluice::run& program_run) {
        return add_plain_steps(calls, steps, program_run.inputs.front());
      },
      "a result of a program");
}

}  // namespace sluice::cli
