// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/latencies.hpp"
#include "tools/sluice/bench/products.hpp"

#include <sluice/actors/ask.hpp>
#include <sluice/operations/blas.hpp>

#include <fmt/format.h>

#include <atomic>
#include <tuple>

namespace sluice::cli {
namespace {

/// Clients that send requests at fixed times, whether or not earlier ones have been answered.
class open_loop {
 public:
  open_loop(caf::actor_system& system, const blas_actor& target,
            const std::vector<sgemm>& products) {
    const auto client = [=, this, &products](caf::event_based_actor* self) -> caf::behavior {
      return {[=, this, &products](std::int64_t i) {
        sluice::request(self, target, caf::infinite, in_turns(products, i))
            .then([=, this](const gpu_ref<float>&) { count(i); },
                  [=, this](const caf::error&) {
                    has_failed_ = true;
                    count(i);
                  });
      }};
    };
    clients_ = several(bench_clients, [&] { return system.spawn<caf::detached>(client); });
  }
  open_loop(const open_loop&) = delete;
  open_loop& operator=(const open_loop&) = delete;
  ~open_loop() {
    for (const auto& client : clients_) {
      caf::anon_send_exit(client, caf::exit_reason::user_shutdown);
    }
  }

  /// Sends requests at equal intervals. Returns their latencies, each from the time at which the
  /// request was due. @throws error if one fails
  [[nodiscard]] const std::vector<double>& send(double per_second) {
    unanswered_ = latencies_.size();
    interval_ =
        std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(1 / per_second));
    start_ = clock::now() + std::chrono::milliseconds(1);
    for (std::size_t i = 0; i < latencies_.size(); ++i) {
      while (clock::now() < due(i)) std::this_thread::yield();
      post(clients_[i % bench_clients], static_cast<std::int64_t>(i));
    }
    while (unanswered_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
    if (has_failed_) throw error(errc::library_failure, "a product has failed");
    return latencies_;
  }

 private:
  [[nodiscard]] clock::time_point due(std::size_t i) const { return start_ + i * interval_; }
  /// Counts the reply to request `i`.
  void count(std::int64_t i) {
    const auto number = static_cast<std::size_t>(i);
    latencies_[number] = microseconds_since(due(number));
    unanswered_.fetch_sub(1, std::memory_order_release);
  }

  std::vector<double> latencies_ = std::vector<double>(20'000);
  std::atomic<std::size_t> unanswered_{0};
  std::atomic<bool> has_failed_{false};
  clock::duration interval_{};
  clock::time_point start_;
  std::vector<caf::actor> clients_;
};

}  // namespace

void bench_latency(bench_run& run) {
  auto& current = run.current;
  const auto products = make_products(current, 1024, {{64, 64, 64}});
  const auto blas = current.device().blas();
  const auto load = product_load(current, blas, products, bench_clients);
  open_loop half_rate_clients(current.system(), blas, products);
  const auto round_trip = [&] {
    (void)ask<gpu_ref<float>>(current.system(), blas, products.front(),
                              request_options{.priority = request_priority::high});
  };
  const auto run_beside_flood = [&](const auto& work) {
    const std::jthread flood([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) load->send(4096);
    });
    work();
  };
  latency_comparison closed_loop;
  latency_rounds half_rate;
  std::vector<double> capacities;  // requests of the flood per second
  load->send(10'000);
  run.each_round([&] {
    closed_loop.add_round(round_trip, run_beside_flood);
    constexpr std::int64_t requests = 20'000;
    const auto start = clock::now();
    load->send(requests);
    capacities.push_back(static_cast<double>(requests) * 1e6 / microseconds_since(start));
    half_rate.add_round(half_rate_clients.send(capacities.back() / 2));
  });
  check_products(run, products);

  const auto& [baseline, contention] = closed_loop;
  const double capacity = quantile(capacities, 0.5);
  const double half_rate_ratio = half_rate.p99() / baseline.median();
  auto& report = run.report;
  report.set_library(run.library_of<gemm>());
  report.add("sgemm_64", "sgemm(64)",
             {baseline.row("alone", "one at a time, alone"),
              contention.row("beside_a_flood",
                             fmt::format("one at a time, beside {} clients, {} in flight each",
                                         bench_clients, bench_in_flight)),
              half_rate.row("at_half_of_the_capacity",
                            fmt::format("sent at {:.1f} thousand a second, half of the highest",
                                        capacity / 2e3))});
  report.add_value("sgemm_64/p99_ratio_beside_a_flood", closed_loop.p99_ratio());
  report.add_value("sgemm_64/capacity_per_second", capacity);
  report.add_value("sgemm_64/sent_per_second", capacity / 2);
  report.add_value("sgemm_64/p99_at_half_of_the_capacity_to_median_alone", half_rate_ratio);
  report.add_line(fmt::format(
      "\n  highest rate of {} clients, {} in flight each: {:.1f} thousand a second\n"
      "  p99 beside the clients: {:.2f} times that alone\n"
      "  p99 at half of the highest rate: {:.2f} times the median alone",
      bench_clients, bench_in_flight, capacity / 1e3, closed_loop.p99_ratio(), half_rate_ratio));
}

}  // namespace sluice::cli
