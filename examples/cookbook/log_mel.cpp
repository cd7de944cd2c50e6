// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>
#include <sluice/operations/mel_filterbank.hpp>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <numbers>
#include <utility>
#include <vector>

using namespace sluice;

/// The log-mel spectrogram of a recording, in decibels below its loudest value.
program make_log_mel(double sample_rate, std::int64_t n_fft, std::int64_t bands) {
  program_builder p;
  const auto samples = p.input("samples");  // f32, [samples]
  const auto window = p.constant("window", hann_window(n_fft));
  const auto filters = p.constant(
      "filters", mel_filterbank({.sample_rate = sample_rate, .n_fft = n_fft, .n_mels = bands}));
  const auto frames = p.add(
      "frames", frame_signal{.signal = samples, .window = window, .n_fft = n_fft, .hop = 512});
  const auto spectrum = p.add("spectrum", rfft{.x = frames});
  const auto power = p.add("power", power_spectrum{.x = spectrum});
  const auto mel = p.add("mel", gemm{.a = filters, .b = power.transposed()});
  const auto loudest = p.add("loudest", reduce{.x = mel, .kind = reduction::max});
  const auto decibels = p.add("decibels", power_to_decibel{.x = mel, .reference = loudest});
  return std::move(p).build({decibels});  // f32, [bands, frames]
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};

  std::vector<float> recording(16000);
  for (std::size_t i = 0; i < recording.size(); ++i) {
    recording[i] = std::sin(static_cast<float>(i) * 440 * 2 * std::numbers::pi_v<float> / 16000);
  }
  const auto results = ask<host_tensors>(system, device.programs(),
                                         run_to_host{make_log_mel(16000, 2048, 128), {recording}});
  std::cout << to_string(results.front().shape()) << '\n';  // [128, 32]
}
