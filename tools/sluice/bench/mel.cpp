// SPDX-License-Identifier: Apache-2.0
#include "examples/mel_spectrogram/mel_service.hpp"
#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/latencies.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/fft.hpp>

#include <fmt/format.h>

namespace sluice::cli {

void bench_mel(bench_run& run) {
  constexpr double sample_rate = 22050;
  constexpr int seconds = 10;
  auto& current = run.current;
  const auto service = examples::spawn_mel_service(current.system(), current.device().actor());
  const examples::mel_spectrogram segment{
      .sample_rate = sample_rate,
      .samples = random_values(static_cast<std::int64_t>(seconds * sample_rate))};
  const auto round_trip = [&] {
    (void)current.ask<tensors>(service, segment);
  };
  (void)time_round_trips(10, 0, round_trip);
  latency_rounds latencies;
  run.each_round([&] { latencies.add_round(time_round_trips(0, 50, round_trip)); });
  run.report.set_library(run.library_of<rfft>() + ", " + run.library_of<gemm>());
  run.report.add_value("mel", {{"seconds", seconds}, {"sample_rate", sample_rate}});
  run.report.add("mel", fmt::format("mel spectrogram, {} s at {:g} Hz", seconds, sample_rate),
                 {latencies.row("request", "request")});
}

}  // namespace sluice::cli
