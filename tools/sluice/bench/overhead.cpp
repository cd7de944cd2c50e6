// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/load_ways.hpp"
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
#include <thread>

namespace sluice::cli {
namespace {

const request_options as_if_alone{.bits = result_bits::as_if_alone};

/// An executor that this thread serves, without an actor.
class lone_executor {
 public:
  explicit lone_executor(const std::shared_ptr<device_service>& service) : executor_(service) {}

  /// Runs `count` products, at most `bench_in_flight` at a time. @throws error if one fails
  void run(const std::vector<sgemm>& products, std::int64_t count) {
    const auto state = std::make_shared<progress>();
    const auto in_flight = [&](std::int64_t submitted) {
      return submitted - state->answered.load(std::memory_order_acquire);
    };
    for (std::int64_t i = 0; i < count; ++i) {
      executor_.submit(to_operation(in_turns(products, i)), as_if_alone,
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
void measure_one_at_a_time(bench_run& run, const std::vector<sgemm>& products, plain_calls& plain) {
  const auto blas = run.current.device().blas();
  paired_rounds ways(run, "one_at_a_time", "sgemm(64), one at a time", shown_times);
  ways.add("library call and wait", [&](std::int64_t n) { plain.run_one_at_a_time(n); });
  ways.add("request of an actor", sending(product_load(run.current, blas, products, 1, 1)));
  ways.add("request of a thread that waits for the reply",
           asking<gpu_ref<float>>(run.current, blas, products));
  ways.measure();
}

/// Many requests or calls in a row, each launched alone.
void measure_in_a_row(bench_run& run, const std::vector<sgemm>& products, plain_calls& plain) {
  lone_executor without_actors(run.current.device().shared_service());
  const auto stream = run.runtime().create_stream();
  const auto requests = [&](const request_options& options) {
    return sending(product_load(run.current, run.current.device().blas(), products, 1,
                                bench_in_flight, options));
  };
  auto with_deadline = as_if_alone;
  with_deadline.deadline = clock::now() + std::chrono::hours(1);
  with_deadline.id = 1;
  paired_rounds ways(run, "in_a_row",
                     fmt::format("sgemm(64), {} in flight, no batches", bench_in_flight),
                     shown_times);
  ways.add("library calls", [&](std::int64_t n) { plain.run(n); });
  ways.add("preflight and commit of 3 blocks", [&](std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto& product = in_turns(products, i);
      auto recorder = launch_recorder::strict(stream);
      recorder.read(product.a).read(product.b).write(product.c);
      recorder.preflight();
      recorder.commit();
    }
    stream.synchronize();
  });
  ways.add("executor without actors", [&](std::int64_t n) { without_actors.run(products, n); });
  const auto usual = ways.add("requests of an actor", requests(as_if_alone));
  ways.add({.name = "requests with a deadline and an id",
            .run = requests(with_deadline),
            .beside = {usual}});
  ways.measure();
}

/// Large requests or calls in a row.
void measure_large(bench_run& run, std::int64_t side) {
  const auto products = make_products(run.current, 4, {{side, side, side}});
  const auto plain = plain_products(run.runtime(), products);
  paired_rounds ways(run, fmt::format("sgemm_{}", side), fmt::format("sgemm({})", side));
  ways.add("library calls", [&](std::int64_t n) { plain->run(n); });
  ways.add("requests of an actor, 8 in flight",
           sending(product_load(run.current, run.current.device().blas(), products, 1, 8)));
  ways.measure();
  check_products(run, products);
}

}  // namespace

void bench_overhead(bench_run& run) {
  const auto products = make_products(run.current, operand_sets, {{64, 64, 64}});
  const auto plain = plain_products(run.runtime(), products);
  measure_one_at_a_time(run, products, *plain);
  measure_in_a_row(run, products, *plain);
  check_products(run, products);
  for (const int side : {run.on_host() ? 256 : 1024, run.on_host() ? 1024 : 4096}) {
    measure_large(run, side);
  }
  run.report.set_library(run.library_of<gemm>());
}

}  // namespace sluice::cli
