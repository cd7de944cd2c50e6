// SPDX-License-Identifier: Apache-2.0
#include "examples/mel_spectrogram/mel_service.hpp"
#include "tools/sluice/bench/bench.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/fft.hpp>

#include <fmt/format.h>

#include <random>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

constexpr double sample_rate = 22050;
constexpr int seconds = 10;

std::vector<float> noise() {
  std::mt19937_64 random;
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> samples(static_cast<std::size_t>(seconds * sample_rate));
  for (float& s : samples) s = uniform(random);
  return samples;
}

}  // namespace

bench_report bench_mel(session& current, const bench_settings& settings) {
  const auto service = examples::spawn_mel_service(current.system(), current.device().actor());
  const examples::mel_spectrogram segment{.sample_rate = sample_rate, .samples = noise()};
  const auto requests = [&](int count, times& into) {
    for (int i = 0; i < count; ++i) {
      auto request = segment;
      const auto begun = clock::now();
      (void)current.ask<tensors>(service, std::move(request));
      into.add(microseconds_since(begun));
    }
  };
  times warm_up;
  requests(10, warm_up);
  rounds measured;
  for (int round = 0; round < settings.rounds; ++round) {
    times of_round;
    requests(50, of_round);
    measured.add(of_round);
    settings.conditions->note();
  }
  settings.conditions->note_rounds(static_cast<std::size_t>(settings.rounds));
  const auto what = fmt::format("mel spectrogram, {} s at {:g} Hz", seconds, sample_rate);
  return {.library = library_of(row_of(operation_type<rfft>{}), current) + ", " +
                     library_of(row_of(operation_type<gemm>{}), current),
          .json = {{"mel",
                    {{"seconds", seconds},
                     {"sample_rate", sample_rate},
                     {"request", measured.json()}}}},
          .table = fmt::format("  {:<36}  {:>12}  {:>12}\n  {:<36}  {:>9.1f} us  {:>9.1f} us\n", "",
                               "median", "p99", what, measured.median(), measured.p99())};
}

}  // namespace sluice::cli
