#include "tests/envelope/launches.hpp"

#include <sluice/envelope/chrome_trace.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::test;
using nlohmann::json;

/// The trace's events of one category, or its metadata ("M").
std::vector<json> events_of(const json& trace, const std::string& category) {
  std::vector<json> found;
  for (const auto& event : trace.at("traceEvents")) {
    if (category == "M" ? event.at("ph") == "M" : event.value("cat", "") == category) {
      found.push_back(event);
    }
  }
  return found;
}

class chrome_trace_test : public testing::Test {
 protected:
  std::shared_ptr<device_service> service_ = std::make_shared<device_service>("host");

  void launch(lane& on, const std::shared_ptr<chrome_trace>& trace, const std::string& operation,
              const std::string& label = {}, bool fails = false) {
    kernel_envelope envelope(
        {.library = "tests", .operation = operation, .type = element_type::f64});
    envelope.trace(trace).nvtx_label(label);
    mailbox<int> box;
    envelope.run(on, operands(), box.token(), 0, {.sizes = {1, 2, 3, 0}},
                 [&](const launch_context&) {
                   if (fails) throw error(errc::unsupported, "no");
                 });
    (void)box.wait();
  }
};

TEST_F(chrome_trace_test, an_empty_one_is_valid) {
  const auto parsed = json::parse(chrome_trace(4).json());
  EXPECT_TRUE(parsed.at("traceEvents").empty());
}

TEST_F(chrome_trace_test, has_a_slice_for_each_launch_and_each_call) {
  const auto trace = std::make_shared<chrome_trace>(16);
  lane on(service_);
  launch(on, trace, "gemm");
  launch(on, trace, "fft", "a \"label\"\\ with\nodd characters");
  launch(on, trace, "conv2d", {}, true);
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
    // One after the other on the stream, each after its call.
    EXPECT_GE(slice.at("ts").get<double>(), end);
    EXPECT_GE(slice.at("dur").get<double>(), 0.0);
    const auto call_end = calls[i].at("ts").get<double>() + calls[i].at("dur").get<double>();
    EXPECT_GE(slice.at("ts").get<double>(), call_end - 1e-3);
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
    // The same stream numbers again, of another runtime of the same device.
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
    // Perfetto reads both as 32 bits and puts everything larger on one track.
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

TEST_F(chrome_trace_test, counts_what_does_not_fit) {
  const auto trace = std::make_shared<chrome_trace>(5);
  lane on(service_);
  for (int i = 0; i < 12; ++i) launch(on, trace, "op" + std::to_string(i));
  settle(*service_);
  EXPECT_EQ(trace->left_out(), 7u);
  const auto parsed = json::parse(trace->json());
  const auto launches = events_of(parsed, "launch");
  ASSERT_EQ(launches.size(), 5u);
  EXPECT_EQ(launches[4].at("name"), "op4");
  EXPECT_EQ(parsed.at("otherData").at("left_out"), 7);
}

TEST_F(chrome_trace_test, may_have_no_room_at_all) {
  const auto trace = std::make_shared<chrome_trace>(0);
  lane on(service_);
  launch(on, trace, "gemm");
  settle(*service_);
  EXPECT_EQ(trace->left_out(), 1u);
  EXPECT_TRUE(json::parse(trace->json()).at("traceEvents").empty());
}

TEST_F(chrome_trace_test, cuts_long_names_and_stays_valid) {
  const auto trace = std::make_shared<chrome_trace>(4);
  lane on(service_);
  std::string two_bytes_each;
  for (int i = 0; i < 40; ++i) two_bytes_each += "\xc3\xa9";
  launch(on, trace, two_bytes_each);
  launch(on, trace, "x" + two_bytes_each);
  settle(*service_);
  const auto launches = events_of(json::parse(trace->json()), "launch");
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_FALSE(launches[0].at("name").get<std::string>().empty());
}

TEST_F(chrome_trace_test, leaves_out_what_has_not_completed) {
  const auto trace = std::make_shared<chrome_trace>(4);
  lane on(service_);
  gate closed;
  closed.hold(on.stream());
  kernel_envelope envelope({.library = "tests", .operation = "slow"});
  envelope.trace(trace);
  mailbox<int> box;
  envelope.run(on, operands(), box.token(), 0, {}, [](const launch_context&) {});
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
      lane on(service_);
      for (std::size_t i = 0; i < each; ++i) launch(on, trace, "gemm");
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
  // On one track no two slices overlap.
  std::map<std::int64_t, double> ends;
  for (const auto& slice : launches) {
    auto& end = ends[slice.at("tid").get<std::int64_t>()];
    EXPECT_GE(slice.at("ts").get<double>(), end - 1e-3);
    end = slice.at("ts").get<double>() + slice.at("dur").get<double>();
  }
}

}  // namespace
