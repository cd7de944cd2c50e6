// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/paired_rounds.hpp"
#include "tools/sluice/bench/products.hpp"

#include <sluice/envelope/reply_token.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace sluice::cli {

namespace {

request_options as_if_alone() {
  return {.bits = result_bits::as_if_alone};
}

/// An executor that this thread serves, without an actor.
class lone_executor {
 public:
  explicit lone_executor(const std::shared_ptr<device_service>& service) : executor_(service) {}

  /// Runs `count` products, at most `bench_in_flight` at a time. @throws error if one fails
  void run(const products& of, std::int64_t count) {
    const auto state = std::make_shared<progress>();
    const auto in_flight = [&](std::int64_t submitted) {
      return submitted - state->answered.load(std::memory_order_acquire);
    };
    for (std::int64_t i = 0; i < count; ++i) {
      executor_.submit(to_operation(of[static_cast<std::size_t>(i)].request(true)), as_if_alone(),
                       reply_token<tensor>::from([state](tensor) { ++state->answered; },
                                                 [state](const error&) {
                                                   state->failed = true;
                                                   ++state->answered;
                                                 }));
      executor_.work();
      while (in_flight(i + 1) >= static_cast<std::int64_t>(bench_in_flight)) {
        executor_.work();
        std::this_thread::yield();
      }
    }
    while (in_flight(count) > 0) {
      executor_.work();
      std::this_thread::yield();
    }
    if (state->failed) throw error(errc::library_failure, "a product has failed");
  }

 private:
  struct progress {
    std::atomic<std::int64_t> answered{0};
    std::atomic<bool> failed{false};
  };
  executor executor_;
};

/// One request or call at a time.
paired_rounds measure_one_at_a_time(session& current, const products& of, by_hand& plain,
                                    const bench_settings& settings) {
  const auto blas = current.device().blas();
  const auto client = make_clients(current, of, 1, 1, blas, true);
  paired_rounds all(settings);
  all.add("library call and wait", [&](std::int64_t n) { plain.one_at_a_time(n); });
  all.add("request of an actor", [client](std::int64_t n) { client->send(n); });
  all.add("request of a thread that waits for the reply", [&](std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      (void)current.ask<gpu_ref<float>>(blas, of[static_cast<std::size_t>(i)].request(true));
    }
  });
  all.measure();
  return all;
}

/// Many requests or calls in a row, each launched alone.
paired_rounds measure_in_a_row(session& current, const products& of, by_hand& plain,
                               const bench_settings& settings) {
  const auto blas = current.device().blas();
  lone_executor without_actors(current.device().shared_service());
  stream own = current.device().service().runtime().create_stream();
  const auto client = make_clients(current, of, 1, bench_in_flight, blas, true, as_if_alone());
  auto followed_options = as_if_alone();
  followed_options.deadline = clock::now() + std::chrono::hours(1);
  followed_options.id = 1;
  const auto followed = make_clients(current, of, 1, bench_in_flight, blas, true, followed_options);
  paired_rounds all(settings);
  all.add("library calls", [&](std::int64_t n) { plain.one_by_one(n); });
  all.add("preflight and commit of 3 blocks", [&](std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto& p = of[static_cast<std::size_t>(i)];
      auto recorder = launch_recorder::strict(own.ref());
      recorder.read(p.a).read(p.b).write(p.c);
      recorder.preflight();
      recorder.commit();
    }
    own.synchronize();
  });
  all.add("executor without actors", [&](std::int64_t n) { without_actors.run(of, n); });
  const auto requests =
      all.add("requests of an actor", [client](std::int64_t n) { client->send(n); });
  const auto with_options = all.add("requests with a deadline and an id",
                                    [followed](std::int64_t n) { followed->send(n); });
  all.compare(with_options, requests);
  all.measure();
  return all;
}

/// Large requests or calls in a row.
paired_rounds measure_large(session& current, std::int64_t side, const bench_settings& settings) {
  products of(current, 4, {{side, side, side}});
  by_hand plain(current, of);
  const auto client = make_clients(current, of, 1, 8, current.device().blas(), true);
  paired_rounds all(settings);
  all.add("library calls", [&](std::int64_t n) { plain.one_by_one(n); });
  all.add("requests of an actor, 8 in flight", [client](std::int64_t n) { client->send(n); });
  all.measure();
  of.check();
  return all;
}

}  // namespace

bench_report bench_overhead(session& current, const bench_settings& settings) {
  products of(current, 256, {{64, 64, 64}});
  by_hand plain(current, of);
  const auto alone = measure_one_at_a_time(current, of, plain, settings);
  const auto in_a_row = measure_in_a_row(current, of, plain, settings);
  of.check();
  bench_report made{
      .library = library_of(row_of(operation_type<gemm>{}), current),
      .json = {{"one_at_a_time", alone.json()}, {"in_a_row", in_a_row.json()}},
      .table = "sgemm(64), one at a time\n" + alone.table_of_times() +
               fmt::format("\nsgemm(64), {} in flight, no batches\n", bench_in_flight) +
               in_a_row.table_of_times()};
  const bool on_host = current.device().service().device().id().kind == device_kind::host;
  for (const std::int64_t side : {on_host ? 256 : 1024, on_host ? 1024 : 4096}) {
    const auto large = measure_large(current, side, settings);
    made.json[fmt::format("sgemm_{}", side)] = large.json();
    made.table += fmt::format("\nsgemm({})\n", side) + large.table();
  }
  return made;
}

}  // namespace sluice::cli
