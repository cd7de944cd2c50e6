// SPDX-License-Identifier: Apache-2.0
#include "tests/envelope/chrome_traces.hpp"
#include "tests/envelope/timing_trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST_F(chrome_trace_test, an_empty_one_is_valid) {
  const auto parsed = json::parse(chrome_trace(4).json());
  EXPECT_TRUE(parsed.at("traceEvents").empty());
}

TEST_F(chrome_trace_test, has_a_slice_for_each_launch_and_each_call) {
  const auto trace = std::make_shared<chrome_trace>(16);
  lane test_lane(service_);
  launch(test_lane, trace, "gemm");
  launch(test_lane, trace, "fft", "a \"label\"\\ with\nodd characters");
  launch(test_lane, trace, "conv2d", {}, true);
  settle(*service_);

  const auto parsed = json::parse(trace->json());
  const auto launches = events_of(parsed, "launch");
  const auto calls = events_of(parsed, "enqueue");
  ASSERT_EQ(launches.size(), 3u);
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(launches[0].at("name"), "gemm");
  EXPECT_EQ(launches[1].at("name"), "a \"label\"\\ with\nodd characters");
  EXPECT_EQ(launches[2].at("name"), "conv2d");
  double end = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& slice = launches[i];
    EXPECT_EQ(slice.at("ph"), "X");
    EXPECT_EQ(slice.at("args").at("library"), "tests");
    EXPECT_EQ(slice.at("args").at("type"), "f64");
    EXPECT_EQ(slice.at("args").at("sizes"), json({1, 2, 3, 0}));
    EXPECT_EQ(slice.at("args").at("launch"), calls[i].at("args").at("launch"));
    EXPECT_EQ(slice.at("args").contains("failure"), i == 2);
    // Slices follow each other on the stream, and each begins after its enqueueing call began.
    EXPECT_GE(slice.at("ts").get<double>(), end);
    EXPECT_GE(slice.at("dur").get<double>(), 0.0);
    EXPECT_GE(slice.at("ts").get<double>(), calls[i].at("ts").get<double>() - 1e-3);
    end = slice.at("ts").get<double>() + slice.at("dur").get<double>();
  }
  EXPECT_EQ(launches[2].at("args").at("failure"), "unsupported");
}

TEST_F(chrome_trace_test, gives_each_stream_a_track_with_a_name) {
  const auto trace = std::make_shared<chrome_trace>(64);
  {
    std::vector<std::unique_ptr<lane>> lanes;
    for (int i = 0; i < 4; ++i) {
      lanes.push_back(std::make_unique<lane>(service_));
      launch(*lanes.back(), trace, "gemm");
    }
    // Streams with the same numbers, of another runtime on the same device.
    auto other = std::make_shared<device_service>("host");
    for (int i = 0; i < 2; ++i) {
      lanes.push_back(std::make_unique<lane>(other));
      launch(*lanes.back(), trace, "gemm");
    }
    settle(*other);
  }
  settle(*service_);
  const auto parsed = json::parse(trace->json());
  std::set<std::pair<std::int64_t, std::int64_t>> tracks;
  for (const auto& slice : events_of(parsed, "launch")) {
    tracks.emplace(slice.at("pid").get<std::int64_t>(), slice.at("tid").get<std::int64_t>());
  }
  EXPECT_EQ(tracks.size(), 6u);
  for (const auto& [process, thread] : tracks) {
    // Perfetto reads both as 32 bits and puts larger numbers on one track.
    EXPECT_LE(process, std::numeric_limits<std::uint32_t>::max());
    EXPECT_LE(thread, std::numeric_limits<std::uint32_t>::max());
    EXPECT_GE(thread, 0);
  }
  std::set<std::pair<std::int64_t, std::int64_t>> named;
  for (const auto& event : events_of(parsed, "M")) {
    if (event.at("name") == "thread_name") {
      named.emplace(event.at("pid").get<std::int64_t>(), event.at("tid").get<std::int64_t>());
    }
  }
  for (const auto& track : tracks) EXPECT_TRUE(named.contains(track));
}

// In microseconds.
double begin_of(const json& slice) {
  return slice.at("ts").get<double>();
}
double end_of(const json& slice) {
  return begin_of(slice) + slice.at("dur").get<double>();
}
constexpr double rounding = 1e-4;

/// Expects that slices of one track nest or follow each other.
void expect_slices_nest(std::vector<json> slices) {
  std::ranges::sort(slices, [&](const json& a, const json& b) {
    return std::pair(begin_of(a), -end_of(a)) < std::pair(begin_of(b), -end_of(b));
  });
  std::vector<double> ends;
  for (const auto& slice : slices) {
    while (!ends.empty() && ends.back() <= begin_of(slice) + rounding) ends.pop_back();
    if (!ends.empty()) {
      EXPECT_LE(end_of(slice), ends.back() + rounding) << slice;
    }
    ends.push_back(end_of(slice));
  }
}

TEST_F(chrome_trace_test, nests_the_calls_of_one_thread) {
  chrome_trace trace({.timestamps = false});
  const auto info_of = [](std::uint64_t id) {
    return kernel_info{.library = "tests", .operation = "op", .label = {}, .launch_id = id};
  };
  // A batch, whose calls begin and end in the same order, then one launch inside another.
  for (std::uint64_t id = 1; id <= 5; ++id) trace.before_enqueue(info_of(id));
  for (std::uint64_t id = 1; id <= 5; ++id) trace.after_enqueue(info_of(id), nullptr);
  trace.before_enqueue(info_of(6));
  trace.before_enqueue(info_of(7));
  trace.after_enqueue(info_of(7), nullptr);
  trace.after_enqueue(info_of(6), nullptr);
  for (std::uint64_t id = 1; id <= 7; ++id) trace.after_complete(info_of(id), {});

  const auto calls = events_of(json::parse(trace.json()), "enqueue");
  ASSERT_EQ(calls.size(), 7U);
  expect_slices_nest(calls);
  std::map<std::uint64_t, json> slice_of;
  for (const auto& call : calls) {
    EXPECT_EQ(call.at("tid"), ::gettid());
    EXPECT_GE(call.at("dur").get<double>(), 0);
    slice_of[call.at("args").at("launch").get<std::uint64_t>()] = call;
  }
  for (std::uint64_t id = 2; id <= 5; ++id) {
    EXPECT_GE(begin_of(slice_of[id]) + rounding, end_of(slice_of[id - 1])) << id;
  }
  EXPECT_LE(begin_of(slice_of[6]), begin_of(slice_of[7]) + rounding);
  EXPECT_GE(end_of(slice_of[6]) + rounding, end_of(slice_of[7]));
}

// Times are microseconds since the begin of the trace, which lies between `made_after` and
// `made_before`.
TEST_F(chrome_trace_test, tells_queueing_execution_and_detection_apart) {
  using clock = std::chrono::steady_clock;
  const auto made_after = clock::now();
  const auto trace = std::make_shared<chrome_trace>(16);
  const auto made_before = clock::now();
  const auto us = [](clock::duration d) {
    return std::chrono::duration<double, std::micro>(d).count();
  };
  lane test_lane(service_);
  gate earlier_work;
  gate execution;
  std::atomic<bool> completing{false};
  std::atomic<bool> looks{false};
  const auto holding = std::make_shared<timing_trace>();
  holding->in_after_complete = [&] {
    completing = true;
    await([&] { return looks.load(); });
  };
  kernel_envelope first({.library = "tests", .operation = "first"});
  first.trace(holding);
  mailbox<int> first_box;
  first.run(test_lane, operands(), first_box.token(), 0, {}, [](const launch_context&) {});
  await([&] { return completing.load(); });

  earlier_work.hold(test_lane.stream());
  kernel_envelope second({.library = "tests", .operation = "second"});
  second.trace(trace);
  mailbox<int> box;
  second.run(test_lane, operands(), box.token(), 0, {},
             [&](const launch_context& context) { execution.hold(context.stream); });
  earlier_work.wait_until_reached();
  const auto while_queued = clock::now();
  earlier_work.open();
  execution.wait_until_reached();
  const auto while_running = clock::now();
  execution.open();
  rest(test_lane.stream());
  const auto finished = clock::now();
  looks = true;
  (void)box.wait();

  const auto parsed = json::parse(trace->json());
  const auto slices = events_of(parsed, "launch");
  ASSERT_EQ(slices.size(), 1u);
  const auto begin = slices[0].at("ts").get<double>();
  const auto end = begin + slices[0].at("dur").get<double>();
  EXPECT_GE(begin, us(while_queued - made_before) - 1e-3);
  EXPECT_LE(begin, us(while_running - made_after) + 1e-3);
  EXPECT_GE(end, us(while_running - made_before) - 1e-3);
  EXPECT_LE(end, us(finished - made_after) + 1e-3);
  ASSERT_TRUE(slices[0].at("args").contains("timestamps"));
  EXPECT_EQ(slices[0].at("args").at("timestamps"), "device");
  const auto queueing = events_of(parsed, "queueing");
  const auto detection = events_of(parsed, "detection");
  ASSERT_EQ(queueing.size(), 2u);
  ASSERT_EQ(detection.size(), 2u);
  for (const auto& half : {queueing, detection}) {
    EXPECT_EQ(half[0].at("ph"), "b");
    EXPECT_EQ(half[1].at("ph"), "e");
    EXPECT_EQ(half[0].at("id"), slices[0].at("args").at("launch"));
    EXPECT_EQ(half[1].at("id"), half[0].at("id"));
    EXPECT_EQ(half[0].at("pid"), slices[0].at("pid"));
  }
  EXPECT_LE(queueing[0].at("ts").get<double>(), us(while_queued - made_after) + 1e-3);
  EXPECT_NEAR(queueing[1].at("ts").get<double>(), begin, 1e-3);
  EXPECT_NEAR(detection[0].at("ts").get<double>(), end, 1e-3);
  EXPECT_GE(detection[1].at("ts").get<double>(), us(finished - made_before) - 1e-3);
}

TEST_F(chrome_trace_test, marks_missing_timestamps) {
  const auto missing = std::make_shared<chrome_trace>(4);
  const auto off =
      std::make_shared<chrome_trace>(chrome_trace_options{.capacity = 4, .timestamps = false});
  kernel_info info{.library = "tests",
                   .operation = "gemm",
                   .label = {},
                   .tag = {},
                   .launch_id = 7,
                   .timed = true};
  for (const auto& trace : {missing, off}) {
    trace->before_enqueue(info);
    trace->after_enqueue(info, nullptr);
    trace->after_complete(info, {});
  }
  const auto now = std::chrono::steady_clock::now();
  missing->after_timestamps(info, {now, {}, {}, now});
  for (const auto& [trace, mark] : {std::pair{missing, "missing"}, std::pair{off, "off"}}) {
    const auto parsed = json::parse(trace->json());
    const auto slices = events_of(parsed, "launch");
    ASSERT_EQ(slices.size(), 1u);
    EXPECT_EQ(slices[0].at("args").at("timestamps"), mark);
    EXPECT_GE(slices[0].at("dur").get<double>(), 0.0);
    EXPECT_TRUE(events_of(parsed, "queueing").empty());
    EXPECT_TRUE(events_of(parsed, "detection").empty());
  }
}

// The trace forwards the hooks, but not `wants_timestamps`.
TEST_F(chrome_trace_test, does_not_wait_for_timestamps_that_nobody_asked_for) {
  const auto chrome = std::make_shared<chrome_trace>(
      chrome_trace_options{.capacity = 2, .full = when_full::overwrite_oldest});
  class wrapper final : public kernel_trace {
   public:
    explicit wrapper(std::shared_ptr<kernel_trace> trace) : trace_(std::move(trace)) {}
    void before_enqueue(const kernel_info& i) override { trace_->before_enqueue(i); }
    void after_enqueue(const kernel_info& i, const error* e) override {
      trace_->after_enqueue(i, e);
    }
    void after_complete(const kernel_info& i, const kernel_outcome& o) override {
      trace_->after_complete(i, o);
    }

   private:
    std::shared_ptr<kernel_trace> trace_;
  };
  lane test_lane(service_);
  const auto trace = std::make_shared<wrapper>(chrome);
  for (int i = 0; i < 5; ++i) launch(test_lane, trace, "op" + std::to_string(i));
  EXPECT_EQ(launches_of(*chrome), (std::vector<std::string>{"op3", "op4"}));
}

TEST_F(chrome_trace_test, cuts_long_names_and_stays_valid) {
  const auto trace = std::make_shared<chrome_trace>(4);
  lane test_lane(service_);
  std::string two_bytes_each;
  for (int i = 0; i < 40; ++i) two_bytes_each += "\xc3\xa9";
  launch(test_lane, trace, two_bytes_each);
  launch(test_lane, trace, "x" + two_bytes_each);
  settle(*service_);
  const auto launches = events_of(json::parse(trace->json()), "launch");
  ASSERT_EQ(launches.size(), 2u);
  const auto whole = two_bytes_each.substr(0, 30);  // 31 bytes would end within a character
  EXPECT_EQ(launches[0].at("name").get<std::string>(), whole);
  EXPECT_EQ(launches[1].at("name").get<std::string>(), "x" + whole);
}

TEST_F(chrome_trace_test, has_a_slice_for_each_step_with_a_time) {
  using std::chrono::microseconds;
  chrome_trace trace(chrome_trace_options{.capacity = 2});
  const kernel_info info{.library = "tests",
                         .operation = "program",
                         .label = {},
                         .launch_id = 3,
                         .timed = true,
                         .steps = "cast, conv"};
  trace.before_enqueue(info);
  trace.after_enqueue(info, nullptr);
  trace.after_complete(info, {});
  const auto begun = std::chrono::steady_clock::now();
  kernel_times times{.enqueued = begun,
                     .begun = begun,
                     .ended = begun + microseconds(50),
                     .detected = begun + microseconds(60)};
  times.steps_begun = begun + microseconds(4);
  times.step_ends = {begun + microseconds(10), begun + microseconds(70), begun};
  times.step_count = 3;  // one has no name
  trace.after_timestamps(info, times);
  const auto parsed = json::parse(trace.json());
  const auto launches = events_of(parsed, "launch");
  const auto steps = events_of(parsed, "step");
  ASSERT_EQ(launches.size(), 1U);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].at("name"), "cast");
  EXPECT_NEAR(steps[0].at("ts").get<double>() - launches[0].at("ts").get<double>(), 4, 0.01)
      << "inputs are uploaded before";
  EXPECT_NEAR(steps[0].at("dur").get<double>(), 6, 0.01);
  EXPECT_EQ(steps[1].at("name"), "conv");
  EXPECT_NEAR(steps[1].at("dur").get<double>(), 40, 0.01) << "a step ends within its launch";
  EXPECT_EQ(steps[1].at("tid"), launches[0].at("tid"));
}

}  // namespace
}  // namespace sluice::test
