// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/hostile_client.hpp"
#include "tools/sluice/bench/products.hpp"
#include "tools/sluice/bench/request_times.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace sluice::cli {

namespace {

/// The latencies of the innocent client, and the replies to the hostile one.
struct figures {
  rounds alone;
  rounds beside;
  hostile_client::replies replies;
  times replies_per_second;
};

figures measure(session& current, const bench_settings& settings) {
  constexpr int requests = 1000;
  products of(current, 1, {{64, 64, 64}});
  const auto round_trips = [&](int count, times& into) {
    time_round_trips<gpu_ref<float>>(current.system(), current.device().blas(), of[0].request(true),
                                     count, into);
  };
  figures result;
  times warm_up;
  round_trips(300, warm_up);
  for (int round = 0; round < settings.rounds; ++round) {
    times alone;
    round_trips(requests, alone);
    result.alone.add(alone);

    times beside;
    hostile_client hostile(current);
    const auto begun = clock::now();
    round_trips(300, warm_up);
    round_trips(requests, beside);
    result.beside.add(beside);
    double replies = 0;
    for (const auto& [kind, codes] : hostile.stop()) {
      for (const auto& [code, count] : codes) {
        result.replies[kind][code] += count;
        replies += static_cast<double>(count);
      }
    }
    result.replies_per_second.add(replies / (microseconds_since(begun) / 1e6));
    settings.conditions->note();
  }
  settings.conditions->note_rounds(static_cast<std::size_t>(settings.rounds));
  of.check();
  return result;
}

nlohmann::ordered_json json_of(const figures& f) {
  return {{"sgemm_64",
           {{"alone", f.alone.json()},
            {"beside", f.beside.json()},
            {"ratio",
             {{"median", f.beside.median() / f.alone.median()},
              {"p99", f.beside.p99() / f.alone.p99()}}}}},
          {"hostile",
           {{"in_flight", bench_in_flight},
            {"replies_per_second", f.replies_per_second.median()},
            {"replies", f.replies}}}};
}

std::string table(const figures& f) {
  std::string text;
  const auto line = [&](const std::string& what, const std::string& alone,
                        const std::string& beside, const std::string& ratio) {
    text += fmt::format("  {:<36}  {:>12}  {:>12}  {:>7}\n", what, alone, beside, ratio);
  };
  const auto latency = [&](const std::string& what, double alone, double beside) {
    line("sgemm(64), one at a time, " + what, fmt::format("{:.2f} us", alone),
         fmt::format("{:.2f} us", beside), fmt::format("{:.2f}", beside / alone));
  };
  line("", "alone", "beside", "ratio");
  latency("median", f.alone.median(), f.beside.median());
  latency("p99", f.alone.p99(), f.beside.p99());
  text += fmt::format("\n  the hostile client, {} in flight: {:.1f} k/s\n", bench_in_flight,
                      f.replies_per_second.median() / 1e3);
  for (const auto& [kind, codes] : f.replies) {
    for (const auto& [code, count] : codes) {
      text += fmt::format("  {:<36}  {:>12}\n", kind + ": " + code, count);
    }
  }
  return text;
}

}  // namespace

bench_report bench_hostile(session& current, const bench_settings& settings) {
  const auto result = measure(current, settings);
  return {.library = library_of(row_of(operation_type<gemm>{}), current),
          .json = json_of(result),
          .table = table(result)};
}

}  // namespace sluice::cli
