// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/batch_sizes.hpp"
#include "tools/sluice/bench/by_hand_on_gpu.hpp"
#include "tools/sluice/bench/paired_rounds.hpp"
#include "tools/sluice/bench/steps.hpp"
#include "tools/sluice/bench/steps_by_hand.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensors.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

constexpr std::size_t operand_sets = 256;

template <class Make>
auto some(std::size_t count, const Make& make) {
  std::vector<decltype(make())> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(make());
  return all;
}

/// Runs of one program beside plain calls of its steps.
struct figures {
  paired_rounds alone;
  paired_rounds pipelined;
};

template <class Steps>
figures measure(session& current, const bench_settings& settings) {
  Steps steps(current);
  const auto inputs = some(operand_sets, [&] { return steps.input(); });
  steps_by_hand<Steps> plain(current, steps, inputs);
  program_builder builder;
  const auto result = steps.add_to(builder, builder.input("x"));
  const auto built = std::move(builder).build({result});
  const auto programs = current.device().programs();

  paired_rounds alone(settings);
  alone.add("plain calls and a wait", [&](std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      plain.calls.call_set(i);
      plain.calls.synchronize();
    }
  });
  const auto graph = make_graph_by_hand(current, [&](plain_calls& to) {
    (void)steps.add_to(to, inputs.front());
    to.end_set();
  });
  const auto way_of_graph = graph ? alone.add("a CUDA graph by hand and a wait",
                                              [graph](std::int64_t n) {
                                                for (std::int64_t i = 0; i < n; ++i) graph();
                                              })
                                  : 0;
  const auto one = clients_of_runs(current, programs, 1, 1, built, inputs);
  const auto request = alone.add("run of an actor", [one](std::int64_t n) { one->send(n); });
  if (graph) alone.compare(request, way_of_graph);
  alone.add("run of a thread that waits for the reply", [&](std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      (void)current.ask<tensors>(programs,
                                 run{built, {inputs[static_cast<std::size_t>(i) % inputs.size()]}});
    }
  });
  alone.measure();

  paired_rounds pipelined(settings);
  pipelined.add("plain calls", [&](std::int64_t n) { plain.run(n); });
  const auto many = clients_of_runs(current, programs, 1, bench_in_flight, built, inputs);
  pipelined.add(fmt::format("runs, {} in flight", bench_in_flight),
                [many](std::int64_t n) { many->send(n); });
  pipelined.measure();
  check_runs(current, built, inputs, plain);
  return {std::move(alone), std::move(pipelined)};
}

/// Mel spectrograms of many clips: plain calls by one thread, and runs that clients send.
paired_rounds measure_many(session& current, const bench_settings& settings) {
  constexpr std::size_t clients = 4;
  constexpr std::int64_t stacked = 32;
  mel_steps steps(current);
  const auto clips = some(operand_sets, [&] { return steps.clips(1); });
  const auto stacks = some(operand_sets / stacked, [&] { return steps.clips(stacked); });
  const auto unequal_clips = some(operand_sets, [&] { return steps.clip_of_random_length(); });
  std::vector<host_tensor> clips_on_host;
  clips_on_host.reserve(clips.size());
  for (const auto& clip : clips) clips_on_host.push_back(steps.on_host(clip));
  steps_by_hand<mel_steps> one(current, steps, clips);
  steps_by_hand<mel_steps> many(current, steps, stacks);
  steps_by_hand<mel_steps> one_from_host(current, steps, clips_on_host);
  steps_by_hand<mel_steps> one_unequal(current, steps, unequal_clips);
  const auto build = [&](std::size_t max_in_batch, bool pads = false) {
    program_builder builder;
    const auto clip =
        pads ? builder.input("clip", per_request, padded{1}) : builder.input("clip", per_request);
    return std::move(builder).build({steps.add_to(builder, clip)}, {.max_in_batch = max_in_batch});
  };
  const auto batched = build(bench_in_flight);
  const auto padded_batched = build(bench_in_flight, true);

  paired_rounds all(settings);
  const auto add_plain = [&](const std::string& what, steps_by_hand<mel_steps>& of) {
    const auto way = all.add("plain calls, " + what, [&of](std::int64_t n) { of.run(n); });
    all.refer(way, way);
    return way;
  };
  const auto by_one = add_plain("one clip each", one);
  const auto by_stacks = all.add(fmt::format("plain calls, {} clips each", stacked),
                                 [&](std::int64_t n) { many.run((n + stacked - 1) / stacked); });
  const auto from_host_by_one = add_plain("one clip each, from the host", one_from_host);
  const auto unequal_by_one = add_plain("one clip of a random length each", one_unequal);
  const auto programs = current.device().programs();
  const auto add_clients = [&](const std::string& what, const program& of, const auto& inputs,
                               std::size_t reference) {
    const auto load_on = [&current, of, &inputs](const program_actor& target) {
      return clients_of_runs(current, target, clients, bench_in_flight, of, inputs);
    };
    const auto way = all.add(
        what, [load = load_on(programs)](std::int64_t n) { load->send(n); }, reference);
    all.show_batch(way, [&current, load_on] {
      return mean_batch(current, spawn_programs, [&](const program_actor& target) {
        load_on(target)->send(2 * clients * bench_in_flight);
      });
    });
    return way;
  };
  add_clients("4 clients, launched alone", build(1), clips, by_one);
  const auto together =
      add_clients(fmt::format("4 clients, up to {} launched together", bench_in_flight), batched,
                  clips, by_one);
  all.compare(together, by_stacks);
  add_clients("4 clients, clips from the host", batched, clips_on_host, from_host_by_one);
  add_clients("4 clients, clips of random lengths", padded_batched, unequal_clips, unequal_by_one);
  all.measure();
  check_runs(current, batched, clips, one);
  check_runs(current, batched, clips_on_host, one_from_host);
  check_runs(current, padded_batched, unequal_clips, one_unequal);
  return all;
}

nlohmann::ordered_json json_of(const figures& f) {
  return {{"alone", f.alone.json()}, {"pipelined", f.pipelined.json()}};
}

std::string table(const std::string& name, const figures& f) {
  return fmt::format("{}, one at a time\n{}\n{}, {} in flight\n{}\n", name,
                     f.alone.table_of_times(), name, bench_in_flight, f.pipelined.table_of_times());
}

}  // namespace

bench_report bench_programs(session& current, const bench_settings& settings) {
  const auto mel = measure<mel_steps>(current, settings);
  const auto small = measure<small_steps>(current, settings);
  const auto many = measure_many(current, settings);
  return {.library = library_of(row_of(operation_type<rfft>{}), current) + ", " +
                     library_of(row_of(operation_type<gemm>{}), current),
          .json = {{mel_steps::key, json_of(mel)},
                   {small_steps::key, json_of(small)},
                   {"many_mel", many.json()}},
          .table = table(mel_steps::name, mel) + table(small_steps::name, small) +
                   fmt::format("{}, {} runs of each client in flight\n", mel_steps::name,
                               bench_in_flight) +
                   many.table()};
}

}  // namespace sluice::cli
