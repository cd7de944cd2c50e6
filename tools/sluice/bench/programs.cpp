// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/by_hand_on_gpu.hpp"
#include "tools/sluice/bench/load_client.hpp"
#include "tools/sluice/bench/steps.hpp"

#include <fmt/format.h>

namespace sluice::cli {
namespace {

/// Runs of one program beside plain calls of its steps.
template <class Steps>
void measure_program(bench_run& run) {
  auto& current = run.current;
  const Steps steps(current);
  const auto inputs = several(operand_sets, [&] { return steps.input(); });
  const auto plain = plain_steps(run.runtime(), steps, inputs);
  const auto runs = runs_of(program_of(steps, 1), inputs);
  const auto programs = current.device().programs();
  const std::string path = Steps::key;
  const std::string title = Steps::name;

  paired_rounds single(run, path + "/alone", title + ", one at a time", shown_times);
  single.add("plain calls and a wait", [&](std::int64_t n) { plain->run_one_at_a_time(n); });
  std::vector<std::size_t> graph_rows;
  if (const auto graph = make_graph_by_hand(run.runtime(), [&](plain_calls& calls) {
        (void)add_plain_steps(calls, steps, inputs.front());
        calls.end_set();
      })) {
    graph_rows.push_back(single.add("a CUDA graph by hand and a wait", [graph](std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) graph();
    }));
  }
  single.add({.name = "run of an actor",
              .run = sending(make_load<tensors>(current, programs, runs, 1, 1)),
              .comparisons = graph_rows});
  single.add("run of a thread that waits for the reply", asking<tensors>(current, programs, runs));
  single.measure();

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
  constexpr std::int64_t stack_size = 32;
  auto& current = run.current;
  const mel_steps steps(current);
  const auto clips = several(operand_sets, [&] { return steps.clips(1); });
  const auto stacks = several(operand_sets / stack_size, [&] { return steps.clips(stack_size); });
  const auto unequal_clips = several(operand_sets, [&] { return steps.clip_of_random_length(); });
  std::vector<host_tensor> clips_on_host;
  clips_on_host.reserve(clips.size());
  for (const auto& clip : clips) {
    clips_on_host.push_back(
        current.ask<host_tensor>(current.device().actor(), download{.x = clip}));
  }
  const auto batched_program = program_of(steps, bench_in_flight, per_request);
  const auto single_runs = runs_of(program_of(steps, 1, per_request), clips);
  const auto batched_runs = runs_of(batched_program, clips);
  const auto host_runs = runs_of(batched_program, clips_on_host);
  const auto padded_runs =
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
  const auto clip_row = add_plain("one clip each", clips);
  const auto stack_row = ways.add(
      fmt::format("plain calls, {} clips each", stack_size),
      [plain = calls(stacks)](std::int64_t n) { plain->run((n + stack_size - 1) / stack_size); });
  const auto host_row = add_plain("one clip each, from the host", clips_on_host);
  const auto unequal_row = add_plain("one clip of a random length each", unequal_clips);

  const auto add_clients = [&](std::string name, const std::vector<sluice::run>& runs,
                               std::size_t reference, std::vector<std::size_t> comparisons = {}) {
    auto way = batched_load(
        current, std::move(name), current.device().programs(), spawn_programs,
        2 * bench_clients * bench_in_flight, [&current, &runs](const program_actor& target) {
          return make_load<tensors>(current, target, runs, bench_clients, bench_in_flight);
        });
    way.reference = reference;
    way.comparisons = std::move(comparisons);
    ways.add(std::move(way));
  };
  add_clients("4 clients, launched alone", single_runs, clip_row);
  add_clients(fmt::format("4 clients, up to {} launched together", bench_in_flight), batched_runs,
              clip_row, {stack_row});
  add_clients("4 clients, clips from the host", host_runs, host_row);
  add_clients("4 clients, clips of random lengths", padded_runs, unequal_row);
  ways.measure();
  for (const auto* const runs : {&batched_runs, &host_runs, &padded_runs}) {
    check_runs(run, steps, *runs);
  }
}

}  // namespace

void bench_programs(bench_run& run) {
  measure_program<mel_steps>(run);
  measure_program<small_steps>(run);
  measure_many(run);
  run.report.set_library(run.library_of<rfft>() + ", " + run.library_of<gemm>());
}

}  // namespace sluice::cli
