// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/load_client.hpp"
#include "tools/sluice/bench/products.hpp"

#include <sluice/envelope/reply_token.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <fmt/format.h>

#include <atomic>

namespace sluice::cli {
namespace {

const request_options as_if_alone{.bits = result_bits::as_if_alone};

/// An executor that this thread serves, without an actor.
class lone_executor {
 public:
  explicit lone_executor(const std::shared_ptr<device_service>& service) : executor_(service) {}

  /// Runs `count` products, at most `bench_in_flight` at a time. @throws error if one fails
  void run(const std::vector<sgemm>& products, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      ++in_flight_;
      executor_.submit(to_operation(in_turns(products, i)), as_if_alone,
                       reply_token<tensor>::from([this](const tensor&) { --in_flight_; },
                                                 [this](const error&) {
                                                   has_failed_ = true;
                                                   --in_flight_;
                                                 }));
      work(bench_in_flight - 1);
    }
    work(0);
    if (has_failed_) throw error(errc::library_failure, "a product has failed");
  }

 private:
  /// Works until at most `limit` products are in flight.
  void work(std::size_t limit) {
    executor_.work();
    while (in_flight_ > limit) {
      std::this_thread::yield();
      executor_.work();
    }
  }

  std::atomic<std::size_t> in_flight_{0};
  std::atomic<bool> has_failed_{false};
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
  lone_executor executor(run.current.device().shared_service());
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
  ways.add("executor without actors", [&](std::int64_t n) { executor.run(products, n); });
  const auto plain_requests = ways.add("requests of an actor", requests(as_if_alone));
  ways.add({.name = "requests with a deadline and an id",
            .run = requests(with_deadline),
            .comparisons = {plain_requests}});
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
