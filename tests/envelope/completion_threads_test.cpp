// SPDX-License-Identifier: Apache-2.0
// Engines with several threads, with continuations of the test.
#include "tests/envelope/calling.hpp"
#include "tests/envelope/launches.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/envelope/completion_engine.hpp>
#include <sluice/envelope/device_service.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class completion_threads : public service_test {
 protected:
  static constexpr std::size_t threads = 3;

  [[nodiscard]] std::unique_ptr<completion_engine> make_engine() {
    return std::make_unique<completion_engine>(runtime(), std::get<1>(GetParam()),
                                               wait_policy::balanced, threads);
  }
  [[nodiscard]] std::vector<stream> make_streams(std::size_t count = threads) {
    std::vector<stream> streams;
    streams.reserve(count);
    for (std::size_t i = 0; i < count; ++i) streams.push_back(runtime().create_stream());
    return streams;
  }
  static void submit(completion_engine& engine, stream_ref stream, calling::function function) {
    engine.submit(stream, take_ticket(stream), std::make_unique<calling>(std::move(function)));
  }
};

TEST_P(completion_threads, share_the_streams) {
  const auto engine = make_engine();
  const auto streams = make_streams(2 * threads);
  std::vector<std::set<std::thread::id>> writers(streams.size());  // each stream has one writer
  for (int round = 0; round < 50; ++round) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      submit(*engine, streams[i],
             [&writers, i](std::optional<errc>) { writers[i].insert(std::this_thread::get_id()); });
    }
  }
  await([&] { return engine->pending() == 0; });
  std::set<std::thread::id> distinct_threads;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    EXPECT_EQ(writers[i].size(), 1U) << i;
    EXPECT_EQ(writers[i], writers[(i + threads) % writers.size()]) << i;
    distinct_threads.insert(writers[i].begin(), writers[i].end());
  }
  EXPECT_EQ(distinct_threads.size(), threads);
  EXPECT_FALSE(distinct_threads.contains(std::this_thread::get_id()));
}

TEST_P(completion_threads, do_not_wait_for_a_reply_of_another_one) {
  const auto streams = make_streams();
  std::promise<void> opened;
  std::atomic<bool> waits{false};
  std::atomic<int> others{0};
  const auto engine = make_engine();
  submit(*engine, streams[0], [&](std::optional<errc>) {
    waits = true;
    opened.get_future().wait();
  });
  await([&] { return waits.load(); });
  for (int round = 0; round < 100; ++round) {
    for (std::size_t i = 1; i < threads; ++i) {
      submit(*engine, streams[i], [&](std::optional<errc>) { ++others; });
    }
  }
  await([&] { return others == 200; });
  await([&] { return engine->pending() == 1; });
  opened.set_value();
}

// Each continuation submits the next one to the stream of another thread while the engine ends.
TEST_P(completion_threads, end_after_what_their_continuations_submit) {
  constexpr std::size_t most = 30;
  for (int round = 0; round < 100; ++round) {
    const auto streams = make_streams();
    std::atomic<std::size_t> calls{0};
    gate closed;
    closed.hold(streams[0]);
    auto engine = make_engine();
    auto& ending_engine = *engine;
    const std::function<void(std::optional<errc>)> next = [&](std::optional<errc>) {
      const auto count = ++calls;
      if (count < most) submit(ending_engine, streams[count % threads], next);
    };
    submit(ending_engine, streams[0], next);
    closed.open();
    engine.reset();
    EXPECT_EQ(calls, most);
  }
}

TEST_P(completion_threads, may_end_in_a_reply_while_others_have_launches) {
  const auto streams = make_streams();
  gate closed;
  for (std::size_t i = 1; i < threads; ++i) closed.hold(streams[i]);
  auto engine = make_engine();
  std::atomic<int> others{0};
  std::atomic<bool> ended{false};
  for (std::size_t i = 1; i < threads; ++i) {
    submit(*engine, streams[i], [&](std::optional<errc>) { ++others; });
  }
  submit(*engine, streams[0], [&](std::optional<errc>) {
    engine.reset();
    ended = true;
  });
  await([&] { return ended.load(); });
  EXPECT_EQ(others, 0);
  closed.open();
  await([&] { return others == 2; });
}

TEST_P(completion_threads, answer_all_launches_of_a_lost_device) {
  if (std::get<0>(GetParam()) != "host") GTEST_SKIP() << "the loss would be that of all tests";
  const auto device = open_host_device();
  device_runtime lost(device, {});
  completion_engine engine(lost, std::get<1>(GetParam()), wait_policy::balanced, threads);
  std::vector<stream> streams;
  gate closed;
  std::atomic<int> failures{0};
  for (std::size_t i = 0; i < threads; ++i) {
    streams.push_back(lost.create_stream());
    closed.hold(streams[i]);
    for (int n = 0; n < 20; ++n) {
      submit(engine, streams[i],
             [&](std::optional<errc> why) { failures += why == errc::device_lost ? 1 : 0; });
    }
  }
  device->lose(error(errc::library_failure, "the cause"));
  await([&] { return engine.pending() == 0; });
  EXPECT_EQ(failures, 20 * static_cast<int>(threads));
}

INSTANTIATE_TEST_SUITE_P(devices, completion_threads,
                         testing::Combine(every_device(), asynchronous_strategies()),
                         name_of_where);

TEST(completion_threads_of_a_service, are_two_for_four_lanes_or_as_many_as_wanted) {
  const auto threads_with = [](device_service_options options) {
    return device_service("host", std::move(options)).engine().threads();
  };
  EXPECT_EQ(threads_with({.max_lanes_on_demand = 2}), 1U);
  EXPECT_EQ(threads_with({.max_lanes_on_demand = 3}), 2U);
  EXPECT_EQ(threads_with({.lanes_per_actor = 3, .high_priority_lanes = 0}), 1U);
  EXPECT_EQ(threads_with({.lanes_per_actor = 3, .high_priority_lanes = 1}), 2U);
  EXPECT_EQ(threads_with({.lanes_per_actor = 0, .high_priority_lanes = 3}), 2U);
  EXPECT_EQ(threads_with({.lanes_per_actor = 64}), 2U);
  EXPECT_EQ(threads_with({.lanes_per_actor = 64, .completion_threads = 1}), 1U);
  EXPECT_EQ(threads_with({.completion_threads = 3}), 3U);
  EXPECT_EQ(threads_with({.completion = completion_strategy::synchronous}), 0U);
  EXPECT_TRUE(throws(errc::invalid_argument,
                     "completion_threads: is 65, but at most 64 are possible",
                     [] { device_service("host", {.completion_threads = 65}); }));
  device_runtime runtime(open_host_device(), {});
  EXPECT_TRUE(throws(errc::invalid_argument, "threads: is 0, but must be between 1 and 64", [&] {
    completion_engine(runtime, completion_strategy::polled, wait_policy::balanced, 0);
  }));
}

}  // namespace
}  // namespace sluice::test
