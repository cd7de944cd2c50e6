// SPDX-License-Identifier: Apache-2.0
// A long random load of requests, many of which fail. Nothing may be left at the end, and the
// backlog of owners stays bounded. SLUICE_SOAK_SECONDS sets the duration (default 2).
#include "runtime/core/runtime_core.hpp"
#include "tests/envelope/launches.hpp"
#include "tests/soak/load.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/soak_time.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t lane_count = 8;

std::size_t threads_of_this_process() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    (void)entry;
    ++count;
  }
  return count;
}

std::vector<std::unique_ptr<lane_thread>> make_lanes(const std::shared_ptr<device_service>& service,
                                                     std::size_t count = lane_count) {
  std::vector<std::unique_ptr<lane_thread>> lanes;
  for (std::size_t i = 0; i < count; ++i) lanes.push_back(std::make_unique<lane_thread>(service));
  return lanes;
}

class soak : public named_device_test {};

TEST_P(soak, leaves_nothing_behind_and_bounds_the_backlog) {
  const auto random = make_generator()();
  const auto service = std::make_shared<device_service>(GetParam());
  const std::vector<request_kind> all = {
      request_kind::fill,    request_kind::shared,  request_kind::many,
      request_kind::large,   request_kind::refused, request_kind::absurd,
      request_kind::failing, request_kind::late,    request_kind::departed};
  const load::options clients_of_a_run{.seed = random, .kinds = all};
  const auto max_in_flight =
      clients_of_a_run.senders * static_cast<std::size_t>(clients_of_a_run.in_flight);
  const auto run = [&](std::chrono::milliseconds time) {
    std::size_t excess = 0;
    std::size_t peak = 0;
    auto lanes = make_lanes(service);
    load clients(*service, lanes, clients_of_a_run);
    for (const auto end = clock::now() + time; clock::now() < end;) {
      // The number in flight changes during the reading, so the larger of two readings counts.
      auto flying = service->engine().pending();
      const auto backlog = detail::runtime_core::of(service->runtime())->releases().size();
      flying = std::max(flying, service->engine().pending());
      peak = std::max(peak, backlog);
      if (backlog > 2 * flying) excess = std::max(excess, backlog - 2 * flying);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    std::printf("%s: backlog of owners %zu at most, %zu above twice what was in flight\n",
                GetParam().c_str(), peak, excess);
    return excess;
  };
  // A first run lets pools, rings and tables grow to their final size.
  (void)run(std::chrono::milliseconds(500));
  // Retired streams free their events one by one, and their threads end later.
  const auto rest = [&] {
    settle(*service);
    for (int i = 0; i < 100; ++i) {
      service->runtime().reap_pending();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return service->runtime().statistics();
  };
  const auto before = rest();
  const auto threads_before = threads_of_this_process();
  EXPECT_LE(run(soak_time()), 1024U);
  expect_nothing_left(*service);
  const auto after = rest();
  EXPECT_EQ(after.references, 0U);
  EXPECT_EQ(after.streams, before.streams);
  std::printf("%s: %llu launches, %zu streams, events %zu before and %zu after, peak %zu bytes\n",
              GetParam().c_str(), static_cast<unsigned long long>(after.launches - before.launches),
              after.streams, before.events, after.events, after.peak_bytes);
  // The runtime's own streams keep the rings of events that they have grown. A ring has at most
  // twice as many events as launches were in flight at a time; the smaller rings that it replaced
  // have as many again.
  EXPECT_LE(after.events, after.streams * 4 * max_in_flight);
  await([&] { return threads_of_this_process() <= threads_before; });
}

/// Sends small requests one after the other and returns the latency of each.
std::vector<double> closed_loop(device_service& service, lane_thread& thread,
                                std::chrono::milliseconds time) {
  std::vector<double> microseconds;
  for (const auto end = clock::now() + time; clock::now() < end;) {
    std::atomic<bool> answered{false};
    const auto begin = clock::now();
    thread.post([&](lane& l) {
      auto target = service.runtime().allocate<std::uint32_t>(1024, l.stream(), "innocent");
      auto uses = access_all(service.runtime(), write(target, "target"));
      auto token = reply_token<words>::from([&](const words&) { answered = true; },
                                            [&](const error&) { answered = true; });
      const auto fill = filling(target, 1);
      run_kernel(l, std::move(uses), token, std::move(target), fill);
    });
    while (!answered.load()) std::this_thread::yield();
    microseconds.push_back(std::chrono::duration<double, std::micro>(clock::now() - begin).count());
  }
  std::sort(microseconds.begin(), microseconds.end());
  return microseconds;
}

// Prints figures; no verdict depends on a duration.
TEST_P(soak, tells_what_an_innocent_client_feels_beside_a_hostile_one) {
  const auto seed = make_generator()();
  const auto service = std::make_shared<device_service>(GetParam());
  auto innocent = make_lanes(service, 1);
  auto hostile = make_lanes(service, 1);
  const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(soak_time()) / 4;
  const auto quantile = [](const std::vector<double>& sorted, double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  (void)closed_loop(*service, *innocent[0], std::chrono::milliseconds(100));
  const auto alone = closed_loop(*service, *innocent[0], time);
  std::vector<double> beside;
  {
    load clients(*service, hostile,
                 {.senders = 1,
                  .in_flight = 64,
                  .seed = seed,
                  .kinds = {request_kind::refused, request_kind::failing, request_kind::large,
                            request_kind::absurd}});
    beside = closed_loop(*service, *innocent[0], time);
  }
  std::printf(
      "%s: alone p50 %.1f us, p99 %.1f us; beside a hostile client p50 %.1f us, p99 %.1f "
      "us: %.2f times the p99\n",
      GetParam().c_str(), quantile(alone, 0.5), quantile(alone, 0.99), quantile(beside, 0.5),
      quantile(beside, 0.99), quantile(beside, 0.99) / quantile(alone, 0.99));
  innocent.clear();
  hostile.clear();
  expect_nothing_left(*service);
}

INSTANTIATE_TEST_SUITE_P(devices, soak, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
