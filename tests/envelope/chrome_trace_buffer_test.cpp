// SPDX-License-Identifier: Apache-2.0
#include "tests/envelope/chrome_traces.hpp"
#include "tests/envelope/timing_trace.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

TEST_F(chrome_trace_test, counts_what_does_not_fit) {
  const auto trace = std::make_shared<chrome_trace>(5);
  lane test_lane(service_);
  for (int i = 0; i < 12; ++i) launch(test_lane, trace, "op" + std::to_string(i));
  settle(*service_);
  EXPECT_EQ(trace->left_out(), 7u);
  const auto parsed = json::parse(trace->json());
  const auto launches = events_of(parsed, "launch");
  ASSERT_EQ(launches.size(), 5u);
  EXPECT_EQ(launches[4].at("name"), "op4");
  EXPECT_EQ(parsed.at("otherData").at("left_out"), 7);
}

// The test's time limit decides: a look-up in a full buffer took about 100 µs.
TEST_F(chrome_trace_test, does_not_look_launches_up_when_full) {
  constexpr std::uint64_t capacity = 65'536;
  constexpr std::uint64_t launches = 4'000'000;
  chrome_trace trace(capacity);
  kernel_info info{.library = "tests", .operation = "gemm", .label = {}, .tag = {}};
  for (info.launch_id = 1; info.launch_id <= launches; ++info.launch_id) {
    trace.before_enqueue(info);
    trace.after_enqueue(info, nullptr);
    trace.before_complete(info);
    trace.after_complete(info, {});
  }
  EXPECT_EQ(trace.left_out(), launches - capacity);
}

TEST_F(chrome_trace_test, keeps_the_newest_if_asked) {
  const auto trace = std::make_shared<chrome_trace>(chrome_trace_options{
      .capacity = 5, .full = when_full::overwrite_oldest, .timestamps = false});
  lane test_lane(service_);
  for (int i = 0; i < 12; ++i) launch(test_lane, trace, "op" + std::to_string(i));
  settle(*service_);
  EXPECT_EQ(launches_of(*trace), (std::vector<std::string>{"op7", "op8", "op9", "op10", "op11"}));
  EXPECT_EQ(trace->left_out(), 7u);
  for (int i = 12; i < 15; ++i) launch(test_lane, trace, "op" + std::to_string(i));
  EXPECT_EQ(launches_of(*trace),
            (std::vector<std::string>{"op10", "op11", "op12", "op13", "op14"}));
  EXPECT_EQ(trace->left_out(), 10u);
}

TEST_F(chrome_trace_test, overwrites_launches_whose_timestamps_have_not_been_read) {
  const auto chrome = std::make_shared<chrome_trace>(
      chrome_trace_options{.capacity = 5, .full = when_full::overwrite_oldest});
  const auto holding = std::make_shared<timing_trace>();
  std::atomic<bool> open{false};
  holding->in_after_timestamps = [&] {
    await([&] { return open.load(); });
  };
  const auto trace =
      std::make_shared<fan_out_trace>(std::vector<std::shared_ptr<kernel_trace>>{holding, chrome});
  lane test_lane(service_);
  for (int i = 0; i < 12; ++i) launch(test_lane, trace, "op" + std::to_string(i));
  open = true;
  const auto parsed = json::parse(chrome->json());
  const auto slices = events_of(parsed, "launch");
  ASSERT_EQ(slices.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(slices[i].at("name"), "op" + std::to_string(i + 7));
    EXPECT_EQ(slices[i].at("args").at("timestamps"), "device");
  }
  EXPECT_EQ(chrome->left_out(), 7u);
}

TEST_F(chrome_trace_test, does_not_overwrite_what_is_in_flight) {
  const auto trace = std::make_shared<chrome_trace>(chrome_trace_options{
      .capacity = 3, .full = when_full::overwrite_oldest, .timestamps = false});
  lane slow(service_);
  lane fast(service_);
  gate closed;
  closed.hold(slow.stream());
  kernel_envelope envelope({.library = "tests", .operation = "slow"});
  envelope.trace(trace);
  mailbox<int> box;
  envelope.run(slow, operands(), box.token(), 0, {}, [](const launch_context&) {});
  for (int i = 0; i < 9; ++i) launch(fast, trace, "op" + std::to_string(i));
  EXPECT_EQ(launches_of(*trace), (std::vector<std::string>{"op7", "op8"}));
  EXPECT_EQ(trace->left_out(), 7u);
  closed.open();
  (void)box.wait();
  EXPECT_EQ(launches_of(*trace), (std::vector<std::string>{"slow", "op7", "op8"}));
}

TEST_F(chrome_trace_test, without_room_for_what_is_in_flight_it_leaves_launches_out) {
  const auto trace = std::make_shared<chrome_trace>(
      chrome_trace_options{.capacity = 2, .full = when_full::overwrite_oldest});
  lane test_lane(service_);
  gate closed;
  closed.hold(test_lane.stream());
  kernel_envelope envelope({.library = "tests", .operation = "slow"});
  envelope.trace(trace);
  mailbox<int> box;
  for (int i = 0; i < 10; ++i) {
    envelope.run(test_lane, operands(), box.token(), 0, {}, [](const launch_context&) {});
  }
  closed.open();
  (void)box.wait(10);
  EXPECT_EQ(launches_of(*trace).size(), 2u);
  EXPECT_EQ(trace->left_out(), 8u);
}

TEST_F(chrome_trace_test, without_memory_for_its_capacity_is_not_made) {
  EXPECT_THROW(chrome_trace(std::size_t{1} << 60U), std::bad_alloc);
}

TEST_F(chrome_trace_test, refuses_a_treatment_that_is_none) {
  EXPECT_TRUE(throws(errc::invalid_argument, "full: is no when_full",
                     [] { chrome_trace({.full = static_cast<when_full>(9)}); }));
}

TEST_F(chrome_trace_test, may_have_no_room_at_all) {
  const auto trace = std::make_shared<chrome_trace>(0);
  lane test_lane(service_);
  launch(test_lane, trace, "gemm");
  settle(*service_);
  EXPECT_EQ(trace->left_out(), 1u);
  EXPECT_TRUE(json::parse(trace->json()).at("traceEvents").empty());
  const auto ring = std::make_shared<chrome_trace>(
      chrome_trace_options{.capacity = 0, .full = when_full::overwrite_oldest});
  launch(test_lane, ring, "gemm");
  settle(*service_);
  EXPECT_EQ(ring->left_out(), 1u);
  EXPECT_TRUE(json::parse(ring->json()).at("traceEvents").empty());
}

TEST_F(chrome_trace_test, shows_nothing_of_a_launch_that_was_overwritten) {
  chrome_trace trace({.capacity = 1, .full = when_full::overwrite_oldest, .timestamps = false});
  const std::string text(150, 'x');
  const auto launches = [&](const kernel_info& info) {
    trace.before_enqueue(info);
    trace.after_enqueue(info, nullptr);
    trace.after_complete(info, {});
    return events_of(json::parse(trace.json()), "launch");
  };
  for (const std::size_t length : {150, 24, 8, 7, 1, 0}) {
    const auto part = text.substr(0, length);
    const auto operation = "o" + part;
    const auto found = launches({.library = part,
                                 .operation = operation,
                                 .label = part,
                                 .tag = part,
                                 .launch_id = length + 1,
                                 .steps = part});
    ASSERT_EQ(found.size(), 1U);
    const auto cut = part.substr(0, 31);
    EXPECT_EQ(found[0].at("name"), length != 0 ? cut : "o");
    EXPECT_EQ(found[0].at("args").at("library"), cut);
    EXPECT_EQ(found[0].at("args").at("operation"), operation.substr(0, 31));
    EXPECT_EQ(found[0].at("args").value("tag", ""), cut);
    EXPECT_EQ(found[0].at("args").value("steps", ""), part);
  }
}

TEST_F(chrome_trace_test, tells_launches_apart_whose_ids_end_alike) {
  chrome_trace trace(chrome_trace_options{.capacity = 2, .timestamps = false});
  const kernel_info first{.library = "tests", .operation = "first", .label = {}, .launch_id = 5};
  const kernel_info second{.library = "tests",
                           .operation = "second",
                           .label = {},
                           .launch_id = 5 + (std::uint64_t{1} << 32U)};
  trace.before_enqueue(first);
  trace.before_enqueue(second);
  const error why(errc::unsupported, "no");
  trace.after_complete(second, {&why});
  EXPECT_EQ(launches_of(trace), (std::vector<std::string>{"second"}));
  trace.after_complete(first, {});
  for (const auto& slice : events_of(json::parse(trace.json()), "launch")) {
    EXPECT_EQ(slice.at("args").contains("failure"), slice.at("name") == "second");
  }
  EXPECT_EQ(launches_of(trace).size(), 2U);
}

TEST_F(chrome_trace_test, leaves_out_what_has_not_completed) {
  const auto trace = std::make_shared<chrome_trace>(4);
  lane test_lane(service_);
  gate closed;
  closed.hold(test_lane.stream());
  kernel_envelope envelope({.library = "tests", .operation = "slow"});
  envelope.trace(trace);
  mailbox<int> box;
  envelope.run(test_lane, operands(), box.token(), 0, {}, [](const launch_context&) {});
  EXPECT_TRUE(json::parse(trace->json()).at("traceEvents").empty());
  closed.open();
  (void)box.wait();
  settle(*service_);
  EXPECT_EQ(events_of(json::parse(trace->json()), "launch").size(), 1u);
}

TEST_F(chrome_trace_test, serves_several_lanes_and_readers_at_once) {
  constexpr std::size_t threads = 4;
  constexpr std::size_t each = 150;
  const auto trace = std::make_shared<chrome_trace>(threads * each - 50);
  std::atomic<std::size_t> running{threads};
  std::vector<std::thread> launching;
  for (std::size_t t = 0; t < threads; ++t) {
    launching.emplace_back([&] {
      lane test_lane(service_);
      for (std::size_t i = 0; i < each; ++i) launch(test_lane, trace, "gemm");
      --running;
    });
  }
  while (running != 0) EXPECT_TRUE(json::accept(trace->json()));
  for (auto& t : launching) t.join();
  settle(*service_);
  const auto parsed = json::parse(trace->json());
  const auto launches = events_of(parsed, "launch");
  EXPECT_EQ(launches.size(), threads * each - 50);
  EXPECT_EQ(trace->left_out(), 50u);
  std::set<std::uint64_t> requests;
  for (const auto& slice : launches)
    requests.insert(slice.at("args").at("launch").get<std::uint64_t>());
  EXPECT_EQ(requests.size(), launches.size());
  // The slices of one track do not overlap.
  std::map<std::int64_t, double> ends;
  for (const auto& slice : launches) {
    auto& end = ends[slice.at("tid").get<std::int64_t>()];
    EXPECT_GE(slice.at("ts").get<double>(), end - 1e-3);
    end = slice.at("ts").get<double>() + slice.at("dur").get<double>();
  }
}

TEST_F(chrome_trace_test, a_ring_serves_several_lanes_and_readers_at_once) {
  constexpr std::size_t threads = 4;
  constexpr std::size_t each = 150;
  constexpr std::size_t capacity = 20;
  const auto trace = std::make_shared<chrome_trace>(
      chrome_trace_options{.capacity = capacity, .full = when_full::overwrite_oldest});
  std::atomic<std::size_t> running{threads};
  std::vector<std::thread> launching;
  for (std::size_t t = 0; t < threads; ++t) {
    launching.emplace_back([&, t] {
      lane test_lane(service_);
      // Name, label and stream identify the thread of each launch.
      const auto name = "op" + std::to_string(t);
      for (std::size_t i = 0; i < each; ++i) launch(test_lane, trace, name, name);
      --running;
    });
  }
  while (running != 0) {
    std::map<std::int64_t, std::string> tracks;
    for (const auto& slice : events_of(json::parse(trace->json()), "launch")) {
      EXPECT_EQ(slice.at("name"), slice.at("args").at("operation"));
      const auto& name = tracks.try_emplace(slice.at("tid"), slice.at("name")).first->second;
      EXPECT_EQ(slice.at("name"), name);
    }
  }
  for (auto& t : launching) t.join();
  settle(*service_);
  EXPECT_EQ(launches_of(*trace).size(), capacity);
  EXPECT_EQ(trace->left_out(), threads * each - capacity);
}

}  // namespace
}  // namespace sluice::test
