// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/processors.hpp"
#include "tools/sluice/bench/products.hpp"
#include "tools/sluice/bench/request_times.hpp"

#include <sluice/actors/ask.hpp>
#include <sluice/actors/caf.hpp>
#include <sluice/operations/blas.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sluice::cli {

namespace {

constexpr std::size_t client_count = 4;

/// Clients that send requests at given times, whether or not earlier ones have been answered. Each
/// is an actor with a thread of its own.
class open_loop_clients {
 public:
  open_loop_clients(caf::actor_system& system, const blas_actor& target, const products& of)
      : shared_(std::make_shared<shared>()) {
    for (std::size_t i = 0; i < client_count; ++i) {
      clients_.push_back(system.spawn<caf::detached>(
          [=, &of, state = shared_](caf::event_based_actor* self) -> caf::behavior {
            return {[=, &of](std::int64_t index) {
              static thread_local const pinned_client here(i);
              const auto answered = [state, index] {
                const auto place = static_cast<std::size_t>(index);
                state->latencies[place] =
                    microseconds_since(state->begun + index * state->interval);
                state->unanswered.fetch_sub(1, std::memory_order_release);
              };
              sluice::request(self, target, caf::infinite,
                              of[static_cast<std::size_t>(index)].request(true))
                  .then([answered](const gpu_ref<float>&) { answered(); },
                        [answered, state](const caf::error&) {
                          state->failed = true;
                          answered();
                        });
            }};
          }));
    }
  }
  open_loop_clients(const open_loop_clients&) = delete;
  open_loop_clients& operator=(const open_loop_clients&) = delete;
  ~open_loop_clients() {
    for (const auto& client : clients_) {
      caf::anon_send_exit(client, caf::exit_reason::user_shutdown);
    }
  }

  /// Sends `count` requests at equal intervals. Returns the times from when each was to be sent
  /// until its reply. @throws error if one fails
  [[nodiscard]] times send(std::int64_t count, double per_second) {
    shared_->latencies.assign(static_cast<std::size_t>(count), 0);
    shared_->unanswered = count;
    shared_->interval =
        std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(1 / per_second));
    shared_->begun = clock::now() + std::chrono::milliseconds(1);
    for (std::int64_t i = 0; i < count; ++i) {
      while (clock::now() < shared_->begun + i * shared_->interval) std::this_thread::yield();
      post(clients_[static_cast<std::size_t>(i) % client_count], i);
    }
    while (shared_->unanswered.load(std::memory_order_acquire) != 0) std::this_thread::yield();
    if (shared_->failed) throw error(errc::library_failure, "a product has failed");
    times all;
    for (const double latency : shared_->latencies) all.add(latency);
    return all;
  }

 private:
  struct shared {
    std::vector<double> latencies;
    std::atomic<std::int64_t> unanswered{0};
    clock::duration interval{};
    clock::time_point begun;
    std::atomic<bool> failed{false};
  };
  std::shared_ptr<shared> shared_;
  std::vector<caf::actor> clients_;
};

/// Keeps clients busy from its construction to its destruction.
class flood {
 public:
  explicit flood(clients_of_sgemm& load)
      : thread_([this, &load] {
          while (!stopped_) load.send(4096);
        }) {}
  flood(const flood&) = delete;
  flood& operator=(const flood&) = delete;
  ~flood() {
    stopped_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

struct figures {
  times capacity;     // requests of the flood per second
  times sent;         // requests per second, half of the capacity
  rounds alone;       // of a client with one request in flight
  rounds beside;      // the same, beside the flood
  rounds half_speed;  // of clients that send at half of the capacity
};

figures measure(session& current, const products& of, const bench_settings& settings) {
  const auto blas = current.device().blas();
  const auto load = make_clients(current, of, client_count, bench_in_flight, blas, true);
  open_loop_clients open_loop(current.system(), blas, of);
  const auto add_round_trips = [&](rounds& to) {
    constexpr int requests = 1000;
    times warm_up;
    times of_round;
    const auto send = [&](int count, times& into) {
      time_round_trips<gpu_ref<float>>(current.system(), blas, of[0].request(true), count, into,
                                       request_options{.priority = request_priority::high});
    };
    send(requests / 4, warm_up);
    send(requests, of_round);
    to.add(of_round);
  };
  figures result;
  load->send(10'000);
  for (int round = 0; round < settings.rounds; ++round) {
    add_round_trips(result.alone);
    {
      const flood beside(*load);
      add_round_trips(result.beside);
    }
    constexpr std::int64_t requests = 20'000;
    const auto begun = clock::now();
    load->send(requests);
    const double per_second = static_cast<double>(requests) * 1e6 / microseconds_since(begun);
    result.capacity.add(per_second);
    result.sent.add(per_second / 2);
    result.half_speed.add(open_loop.send(requests, per_second / 2));
    settings.conditions->note();
  }
  settings.conditions->note_rounds(static_cast<std::size_t>(settings.rounds));
  return result;
}

nlohmann::ordered_json json_of(const figures& f) {
  return {{"alone", f.alone.json()},
          {"beside_a_flood", f.beside.json()},
          {"p99_ratio_beside_a_flood", f.beside.p99() / f.alone.p99()},
          {"capacity_per_second", f.capacity.median()},
          {"sent_per_second", f.sent.median()},
          {"at_half_of_the_capacity", f.half_speed.json()},
          {"p99_at_half_of_the_capacity_to_median_alone", f.half_speed.p99() / f.alone.median()}};
}

std::string table(const figures& f) {
  std::string text;
  const auto line = [&](const std::string& what, const rounds& found) {
    text += fmt::format("  {:<52}  {:>9.1f} us  {:>9.1f} us\n", what, found.median(), found.p99());
  };
  text += fmt::format("  {:<52}  {:>12}  {:>12}\n", "", "median", "p99");
  line("one at a time, alone", f.alone);
  line(fmt::format("one at a time, beside {} clients, {} in flight each", client_count,
                   bench_in_flight),
       f.beside);
  line(fmt::format("sent at {:.1f} thousand a second, half of the highest", f.sent.median() / 1e3),
       f.half_speed);
  return text + fmt::format(
                    "\n  highest rate of {} clients, {} in flight each: {:.1f} thousand a second\n"
                    "  p99 beside the clients: {:.2f} times that alone\n"
                    "  p99 at half of the highest rate: {:.2f} times the median alone\n",
                    client_count, bench_in_flight, f.capacity.median() / 1e3,
                    f.beside.p99() / f.alone.p99(), f.half_speed.p99() / f.alone.median());
}

}  // namespace

bench_report bench_latency(session& current, const bench_settings& settings) {
  products of(current, 1024, {{64, 64, 64}});
  const auto result = measure(current, of, settings);
  of.check();
  return {.library = library_of(row_of(operation_type<gemm>{}), current),
          .json = {{"sgemm_64", json_of(result)}},
          .table = "sgemm(64)\n" + table(result)};
}

}  // namespace sluice::cli
