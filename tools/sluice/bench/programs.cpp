// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/by_hand_on_gpu.hpp"
#include "tools/sluice/bench/load_ways.hpp"
#include "tools/sluice/bench/paired_rounds.hpp"
#include "tools/sluice/bench/runs_of_steps.hpp"
#include "tools/sluice/bench/steps.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {
namespace {

/// Runs of one program beside plain calls of its steps.
template <class Steps>
void measure_program(bench_run& run) {
  auto& current = run.current;
  Steps steps(current);
  const auto inputs = several(operand_sets, [&] { return steps.input(); });
  const auto plain = plain_steps(run.runtime(), steps, inputs);
  const auto runs = runs_of(program_of(steps, 1), inputs);
  const auto programs = current.device().programs();
  const std::string path = Steps::key;
  const std::string title = Steps::name;

  paired_rounds alone(run, path + "/alone", title + ", one at a time", shown_times);
  alone.add("plain calls and a wait", [&](std::int64_t n) { plain->run_one_at_a_time(n); });
  std::vector<std::size_t> by_graph;
  if (const auto graph = make_graph_by_hand(run.runtime(), [&](plain_calls& calls) {
        (void)add_plain_steps(calls, steps, inputs.front());
        calls.end_set();
      })) {
    by_graph.push_back(alone.add("a CUDA graph by hand and a wait", [graph](std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) graph();
    }));
  }
  alone.add({.name = "run of an actor",
             .run = sending(make_load<tensors>(current, programs, runs, 1, 1)),
             .beside = by_graph});
  alone.add("run of a thread that waits for the reply", asking<tensors>(current, programs, runs));
  alone.measure();

  paired_rounds pipelined(run, path + "/pipelined",
                          fmt::format("{}, {} in flight", title, bench_in_flight), shown_times);
  pipelined.add("plain calls", [&](std::int64_t n) { plain->run(n); });
  pipelined.add(fmt::format("runs, {} in flight", bench_in_flight),
                sending(make_load<tensors>(current, programs, runs, 1, bench_in_flight)));
  pipelined.measure();
  check_runs(run, steps, runs);
}

/// Mel spectrograms of many clips: plain calls by one thread, and runs that clients send.
void measure_many(bench_run& run) {
  constexpr std::int64_t stacked = 32;
  auto& current = run.current;
  mel_steps steps(current);
  const auto clips = several(operand_sets, [&] { return steps.clips(1); });
  const auto stacks = several(operand_sets / stacked, [&] { return steps.clips(stacked); });
  const auto unequal_clips = several(operand_sets, [&] { return steps.clip_of_random_length(); });
  std::vector<host_tensor> clips_on_host;
  clips_on_host.reserve(clips.size());
  for (const auto& clip : clips) {
    clips_on_host.push_back(
        current.ask<host_tensor>(current.device().actor(), download{.x = clip}));
  }

  const auto batched = program_of(steps, bench_in_flight, per_request);
  const auto alone = runs_of(program_of(steps, 1, per_request), clips);
  const auto together = runs_of(batched, clips);
  const auto from_host = runs_of(batched, clips_on_host);
  const auto unequal =
      runs_of(program_of(steps, bench_in_flight, per_request, padded{1}), unequal_clips);

  paired_rounds ways(
      run, "many_mel",
      fmt::format("{}, {} runs of each client in flight", mel_steps::name, bench_in_flight));
  const auto calls = [&](const auto& inputs) {
    return std::shared_ptr(plain_steps(run.runtime(), steps, inputs));
  };
  const auto add_plain = [&](const std::string& name, const auto& inputs) {
    return ways.add_reference("plain calls, " + name,
                              [plain = calls(inputs)](std::int64_t n) { plain->run(n); });
  };
  const auto by_one = add_plain("one clip each", clips);
  const auto by_stacks = ways.add(
      fmt::format("plain calls, {} clips each", stacked),
      [plain = calls(stacks)](std::int64_t n) { plain->run((n + stacked - 1) / stacked); });
  const auto from_host_by_one = add_plain("one clip each, from the host", clips_on_host);
  const auto unequal_by_one = add_plain("one clip of a random length each", unequal_clips);

  const auto add_clients = [&](std::string name, const std::vector<sluice::run>& runs,
                               std::size_t reference, std::vector<std::size_t> beside = {}) {
    auto way = batched_load(
        current, std::move(name), current.device().programs(), spawn_programs,
        2 * bench_clients * bench_in_flight, [&current, &runs](const program_actor& target) {
          return make_load<tensors>(current, target, runs, bench_clients, bench_in_flight);
        });
    way.reference = reference;
    way.beside = std::move(beside);
    ways.add(std::move(way));
  };
  add_clients("4 clients, launched alone", alone, by_one);
  add_clients(fmt::format("4 clients, up to {} launched together", bench_in_flight), together,
              by_one, {by_stacks});
  add_clients("4 clients, clips from the host", from_host, from_host_by_one);
  add_clients("4 clients, clips of random lengths", unequal, unequal_by_one);
  ways.measure();
  for (const auto* const runs : {&together, &from_host, &unequal}) check_runs(run, steps, *runs);
}

}  // namespace

void bench_programs(bench_run& run) {
  measure_program<mel_steps>(run);
  measure_program<small_steps>(run);
  measure_many(run);
  run.report.set_library(run.library_of<rfft>() + ", " + run.library_of<gemm>());
}

}  // namespace sluice::cli
