// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/latencies.hpp"
#include "tools/sluice/bench/products.hpp"

#include <sluice/actors/ask.hpp>
#include <sluice/operations/blas.hpp>

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

namespace sluice::cli {
namespace {

/// Requests that clients send at given times, whether or not earlier ones have been answered.
class open_loop {
 public:
  open_loop(caf::actor_system& system, const blas_actor& target, const std::vector<sgemm>& products)
      : clients_(
            system, bench_clients, bench_in_flight, target,
            [&products](std::size_t client, std::size_t i) {
              return std::tuple(products[(i * bench_clients + client) % products.size()]);
            },
            [this](std::size_t client, std::size_t i, bool succeeded) {
              const auto number = (i * bench_clients + client) % latencies_.size();
              latencies_[number] = microseconds_since(due(number));
              if (!succeeded) failed_ = true;
              unanswered_.fetch_sub(1, std::memory_order_release);
            }) {}

  /// Sends requests at equal intervals. Returns the times from when each was to be sent until its
  /// reply. @throws error if one fails
  [[nodiscard]] const std::vector<double>& send(double per_second) {
    unanswered_ = latencies_.size();
    interval_ =
        std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(1 / per_second));
    begun_ = clock::now() + std::chrono::milliseconds(1);
    for (std::size_t i = 0; i < latencies_.size(); ++i) {
      while (clock::now() < due(i)) std::this_thread::yield();
      clients_.post_one(i % bench_clients);
    }
    while (unanswered_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
    if (failed_) throw error(errc::library_failure, "a product has failed");
    return latencies_;
  }

 private:
  [[nodiscard]] clock::time_point due(std::size_t i) const { return begun_ + i * interval_; }

  std::vector<double> latencies_ = std::vector<double>(20'000);
  std::atomic<std::size_t> unanswered_{0};
  std::atomic<bool> failed_{false};
  clock::duration interval_{};
  clock::time_point begun_;
  load_clients<gpu_ref<float>> clients_;
};

}  // namespace

void bench_latency(bench_run& run) {
  auto& current = run.current;
  const auto products = make_products(current, 1024, {{64, 64, 64}});
  const auto blas = current.device().blas();
  const auto load = product_load(current, blas, products, bench_clients);
  open_loop at_given_times(current.system(), blas, products);
  const auto round_trips = [&] {
    constexpr int requests = 1000;
    return time_round_trips(requests / 4, requests, [&] {
      (void)ask<gpu_ref<float>>(current.system(), blas, products.front(),
                                request_options{.priority = request_priority::high});
    });
  };
  latency_rounds alone;
  latency_rounds beside;
  latency_rounds half_speed;
  std::vector<double> capacities;  // requests of the flood per second
  load->send(10'000);
  run.each_round([&] {
    alone.add_round(round_trips());
    {
      const std::jthread flood([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) load->send(4096);
      });
      beside.add_round(round_trips());
    }
    constexpr std::int64_t requests = 20'000;
    const auto begun = clock::now();
    load->send(requests);
    capacities.push_back(static_cast<double>(requests) * 1e6 / microseconds_since(begun));
    half_speed.add_round(at_given_times.send(capacities.back() / 2));
  });
  check_products(run, products);

  const double capacity = quantile(capacities, 0.5);
  const double beside_ratio = beside.p99() / alone.p99();
  const double half_speed_ratio = half_speed.p99() / alone.median();
  auto& report = run.report;
  report.set_library(run.library_of<gemm>());
  report.add("sgemm_64", "sgemm(64)",
             {alone.row("alone", "one at a time, alone"),
              beside.row("beside_a_flood",
                         fmt::format("one at a time, beside {} clients, {} in flight each",
                                     bench_clients, bench_in_flight)),
              half_speed.row("at_half_of_the_capacity",
                             fmt::format("sent at {:.1f} thousand a second, half of the highest",
                                         capacity / 2e3))});
  report.add_value("sgemm_64/p99_ratio_beside_a_flood", beside_ratio);
  report.add_value("sgemm_64/capacity_per_second", capacity);
  report.add_value("sgemm_64/sent_per_second", capacity / 2);
  report.add_value("sgemm_64/p99_at_half_of_the_capacity_to_median_alone", half_speed_ratio);
  report.add_line(
      fmt::format("\n  highest rate of {} clients, {} in flight each: {:.1f} thousand a second\n"
                  "  p99 beside the clients: {:.2f} times that alone\n"
                  "  p99 at half of the highest rate: {:.2f} times the median alone",
                  bench_clients, bench_in_flight, capacity / 1e3, beside_ratio, half_speed_ratio));
}

}  // namespace sluice::cli
