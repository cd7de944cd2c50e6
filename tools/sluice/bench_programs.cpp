// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench_steps.hpp"
#include "tools/sluice/load_client.hpp"
#include "tools/sluice/paired_rounds.hpp"
#include "tools/sluice/plain_calls.hpp"
#include "tools/sluice/request_times.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/fft.hpp>
#include <sluice/operations/program.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

/// Times of one program and of plain calls of its steps.
struct figures {
  times plain_call;
  times round_trip;
  times plain_piece;      ///< of one of many calls in a row
  times pipelined_piece;  ///< of one run, with `bench_in_flight` runs in flight
};

template <class Steps>
figures measure(session& current, const bench_settings& settings) {
  const Steps steps(current);
  plain_calls plain(current.device().service().runtime());
  (void)steps.add_to(plain, steps.input());
  plain.end_set();
  program_builder builder;
  const auto result = steps.add_to(builder, builder.input("x"));
  const run request{std::move(builder).build({result}, {.capture = capture_policy::automatic}),
                    {steps.input()}};
  const auto programs = current.device().programs();

  const auto measure_into = [&](figures& into, int calls, int many) {
    for (int i = 0; i < calls; ++i) {
      const auto begun = clock::now();
      plain.call();
      plain.synchronize();
      into.plain_call.add(microseconds_since(begun));
    }
    time_round_trips<tensors>(current.system(), programs, request, calls, into.round_trip);
    const auto begun = clock::now();
    for (int i = 0; i < many; ++i) plain.call();
    plain.synchronize();
    into.plain_piece.add(microseconds_since(begun) / many);
    time_pipelined<tensors>(
        current.system(), programs, [&](std::size_t) -> const run& { return request; }, many,
        into.pipelined_piece);
  };
  figures warm_up;
  measure_into(warm_up, 20, 100);
  figures measured;
  // In turn, so that other load on the machine affects all alike.
  for (int round = 0; round < settings.rounds; ++round) measure_into(measured, 20, 200);
  return measured;
}

/// Mel spectrograms of many clips: plain calls by one thread, and runs that clients send.
paired_rounds measure_many(session& current, const bench_settings& settings) {
  constexpr std::size_t clients = 4;
  constexpr std::size_t clips_of_client = 2 * bench_in_flight;
  constexpr std::int64_t stacked = 32;
  mel_steps steps(current);
  plain_calls one(current.device().service().runtime());
  (void)steps.add_to(one, steps.clips(1));
  one.end_set();
  plain_calls many(current.device().service().runtime());
  (void)steps.add_to(many, steps.clips(stacked));
  many.end_set();
  std::vector<std::unique_ptr<plain_calls>> of_random_lengths;
  for (std::int64_t i = 0; i < stacked; ++i) {
    auto& made = *of_random_lengths.emplace_back(
        std::make_unique<plain_calls>(current.device().service().runtime()));
    (void)steps.add_to(made, steps.clip_of_random_length());
    made.end_set();
  }
  const auto build = [&](std::size_t max_in_batch, bool pads = false) {
    program_builder builder;
    const auto clip =
        pads ? builder.input("clip", per_request, padded{1}) : builder.input("clip", per_request);
    return std::move(builder).build(
        {steps.add_to(builder, clip)},
        {.capture = capture_policy::automatic, .max_in_batch = max_in_batch});
  };
  std::vector<tensor> clips;
  std::vector<tensor> unequal_clips;
  for (std::size_t i = 0; i < clients * clips_of_client; ++i) {
    clips.push_back(steps.clips(1));
    unequal_clips.push_back(steps.clip_of_random_length());
  }
  std::vector<host_tensor> clips_on_host;
  clips_on_host.reserve(clips.size());
  for (const auto& clip : clips) clips_on_host.push_back(steps.on_host(clip));
  const auto programs = current.device().programs();
  const auto load_of = [&](const program& what, const auto& inputs) {
    return std::make_shared<load_clients<tensors>>(
        current.system(), clients, bench_in_flight, programs,
        [&inputs, what](std::size_t client, std::size_t i) {
          return std::tuple(run{what, {inputs[client * clips_of_client + i % clips_of_client]}});
        });
  };
  paired_rounds all(settings);
  all.add("plain calls, one clip each", [&](std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) one.call();
    one.synchronize();
  });
  all.add(fmt::format("plain calls, {} clips each", stacked), [&](std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += stacked) many.call();
    many.synchronize();
  });
  all.add("plain calls, clips of random lengths", [&](std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      of_random_lengths[static_cast<std::size_t>(i % stacked)]->call();
    }
    for (const auto& each : of_random_lengths) each->synchronize();
  });
  const auto alone = load_of(build(1), clips);
  all.add("4 clients, launched alone", [alone](std::int64_t n) { alone->send(n); });
  const auto together = load_of(build(bench_in_flight), clips);
  all.add(fmt::format("4 clients, up to {} launched together", bench_in_flight),
          [together](std::int64_t n) { together->send(n); });
  const auto from_host = load_of(build(bench_in_flight), clips_on_host);
  all.add("the same, with clips from the host",
          [from_host](std::int64_t n) { from_host->send(n); });
  const auto unequal = load_of(build(bench_in_flight, true), unequal_clips);
  all.add("the same, with clips of random lengths",
          [unequal](std::int64_t n) { unequal->send(n); });
  all.measure();
  return all;
}

nlohmann::ordered_json json_of(const figures& f) {
  const auto pair = [](const times& plain, const times& program) {
    return nlohmann::ordered_json{{"plain_us", plain.median()},
                                  {"program_us", program.median()},
                                  {"ratio", program.median() / plain.median()}};
  };
  return {{"alone", pair(f.plain_call, f.round_trip)},
          {"pipelined", pair(f.plain_piece, f.pipelined_piece)}};
}

std::string table(const std::string& name, const figures& f) {
  const auto line = [](const std::string& what, const times& plain, const times& program) {
    return fmt::format("  {:<44}  {:>9.2f} us  {:>9.2f} us  {:>7.2f}\n", what, plain.median(),
                       program.median(), program.median() / plain.median());
  };
  return line(name + ", alone", f.plain_call, f.round_trip) +
         line(fmt::format("  {} in flight", bench_in_flight), f.plain_piece, f.pipelined_piece);
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
          .table = fmt::format("  {:<44}  {:>12}  {:>12}  {:>7}\n", "", "plain calls", "program",
                               "as long") +
                   table(mel_steps::name, mel) + table(small_steps::name, small) +
                   fmt::format("\n{}, {} runs of each client in flight\n", mel_steps::name,
                               bench_in_flight) +
                   many.table()};
}

}  // namespace sluice::cli
