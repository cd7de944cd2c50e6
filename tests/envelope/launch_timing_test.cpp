// SPDX-License-Identifier: Apache-2.0
// Timestamps of launches: their meaning, their cost in calls of the device, and failures. The tests
// compare times with moments before and after the events, never with durations.
#include "tests/envelope/launches.hpp"
#include "tests/envelope/recording_trace.hpp"
#include "tests/envelope/timing_trace.hpp"
#include "tests/support/forwarding_device.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace {

using namespace sluice;
using namespace sluice::test;
using clock = std::chrono::steady_clock;

/// A host device that counts the calls for timestamps and fails those that a test selects.
class counting_device final : public forwarding_device {
 public:
  struct counts {
    std::atomic<std::size_t> created{0};
    std::atomic<std::size_t> destroyed{0};
    std::atomic<std::size_t> recorded{0};
    std::atomic<std::size_t> clocks{0};
    std::atomic<std::size_t> anchors{0};
    std::atomic<std::size_t> reads{0};
    std::atomic<std::size_t> reads_without_anchor{0};
    std::atomic<bool> anchor_fails{false};
  };

  counting_device() : forwarding_device({device_kind::host, 0}, open_host_device()) {}

  std::shared_ptr<counts> counters = std::make_shared<counts>();
  /// Called before a timestamp is created, and queried before one is recorded.
  std::function<void()> at_create = [] {
  };
  std::function<bool(std::size_t nth)> records = [](std::size_t) {
    return true;
  };

  native_timestamp* create_timestamp() override {
    at_create();
    ++counters->created;
    return forwarding_device::create_timestamp();
  }
  void destroy_timestamp(native_timestamp* t) noexcept override {
    ++counters->destroyed;
    forwarding_device::destroy_timestamp(t);
  }
  bool record_timestamp(native_timestamp* t, native_stream* s) noexcept override {
    return records(counters->recorded++) && forwarding_device::record_timestamp(t, s);
  }
  std::unique_ptr<timestamp_clock> make_timestamp_clock() override {
    class counting_clock final : public timestamp_clock {
     public:
      counting_clock(std::unique_ptr<timestamp_clock> real, std::shared_ptr<counts> counters)
          : real_(std::move(real)), counters_(std::move(counters)) {}
      bool anchor() noexcept override {
        ++counters_->anchors;
        anchored_ = !counters_->anchor_fails && real_->anchor();
        return anchored_;
      }
      std::optional<clock::time_point> time_of(native_timestamp* t) noexcept override {
        ++counters_->reads;
        if (!anchored_) return std::nullopt;
        return real_->time_of(t);
      }

     private:
      std::unique_ptr<timestamp_clock> real_;
      std::shared_ptr<counts> counters_;
      bool anchored_ = false;
    };
    ++counters->clocks;
    return std::make_unique<counting_clock>(forwarding_device::make_timestamp_clock(), counters);
  }

 protected:
  void on_loss() noexcept override { real().lose(loss()); }
};

class launch_timing_test : public testing::Test {
 protected:
  void SetUp() override { open({}); }

  void open(device_service_options options) {
    lane_.reset();
    service_ = std::make_shared<device_service>(device_, std::move(options));
    lane_ = std::make_unique<lane>(service_);
  }
  /// A launch that is answered when it has finished.
  template <class Closure>
  mailbox<int> launch(const std::shared_ptr<kernel_trace>& trace, Closure&& closure) {
    kernel_envelope envelope({.library = "tests", .operation = "nothing"});
    envelope.trace(trace).nvtx_label("a label");
    mailbox<int> box;
    envelope.run(*lane_, operands(), box.token(), 0, {}, std::forward<Closure>(closure));
    return box;
  }
  mailbox<int> launch(const std::shared_ptr<kernel_trace>& trace) {
    return launch(trace, [](const launch_context& context) { context.submit_host([] {}); });
  }

  std::shared_ptr<counting_device> device_ = std::make_shared<counting_device>();
  std::shared_ptr<counting_device::counts> counters_ = device_->counters;
  std::shared_ptr<device_service> service_;
  std::unique_ptr<lane> lane_;
  std::shared_ptr<timing_trace> trace_ = std::make_shared<timing_trace>();
};

TEST_F(launch_timing_test, tells_queueing_from_execution) {
  gate earlier_work;
  gate execution;
  earlier_work.hold(lane_->stream());
  const auto before = clock::now();
  const auto box =
      launch(trace_, [&](const launch_context& context) { execution.hold(context.stream); });
  earlier_work.wait_until_reached();
  const auto while_queued = clock::now();
  earlier_work.open();
  execution.wait_until_reached();
  const auto while_running = clock::now();
  execution.open();
  (void)box.wait();
  const auto after_reply = clock::now();

  const auto times = trace_->wait(1)[0].times;
  ASSERT_TRUE(times.begun);
  ASSERT_TRUE(times.ended);
  EXPECT_LE(before, times.enqueued);
  EXPECT_LE(times.enqueued, while_queued);
  EXPECT_LE(while_queued, *times.begun);
  EXPECT_LE(*times.begun, while_running);
  EXPECT_LE(while_running, *times.ended);
  EXPECT_LE(*times.ended, times.detected);
  EXPECT_LE(times.detected, after_reply);
  EXPECT_EQ(times.queueing(), *times.begun - times.enqueued);
  EXPECT_EQ(times.execution(), *times.ended - *times.begun);
  EXPECT_EQ(times.detection(), times.detected - *times.ended);
}

TEST_F(launch_timing_test, the_end_is_not_when_the_completion_engine_looked) {
  std::atomic<bool> completing{false};
  std::atomic<bool> open{false};
  trace_->in_after_complete = [&] {
    completing = true;
    await([&] { return open.load(); });
  };
  const auto holding = launch(trace_);
  await([&] { return completing.load(); });
  const auto late = launch(trace_);
  rest(lane_->stream());
  const auto finished = clock::now();
  open = true;
  (void)late.wait();
  const auto times = trace_->wait(2)[1].times;
  ASSERT_TRUE(times.ended);
  EXPECT_LE(*times.ended, finished);
  EXPECT_LE(finished, times.detected);
}

TEST_F(launch_timing_test, costs_nothing_that_no_trace_asked_for) {
  for (int i = 0; i < 10; ++i) {
    (void)launch(nullptr).wait();
    (void)launch(std::make_shared<recording_trace>()).wait();
  }
  settle(*service_);
  EXPECT_EQ(counters_->created, 0u);
  EXPECT_EQ(counters_->recorded, 0u);
  EXPECT_EQ(counters_->clocks, 0u);
}

TEST_F(launch_timing_test, reuses_timestamps_and_makes_them_before_the_leases) {
  device_->at_create = [&] {
    EXPECT_EQ(service_->runtime().statistics().leases, 0u);
  };
  const auto out = service_->runtime().allocate<std::uint32_t>(4, lane_->stream(), "test");
  kernel_envelope envelope({.library = "tests", .operation = "fill"});
  envelope.trace(trace_);
  constexpr std::size_t launches = 300;
  for (std::size_t i = 0; i < launches; ++i) {
    mailbox<words> box;
    envelope.run(*lane_, access_all(service_->runtime(), write(out, "out")), box.token(), out, {},
                 filling(out, 7));
    (void)box.wait();
    (void)trace_->wait(i + 1);
  }
  EXPECT_EQ(counters_->created, 128u);  // pairs are created in groups of 64
  EXPECT_EQ(counters_->recorded, 2 * launches);
  EXPECT_EQ(counters_->clocks, 1u);
  for (const auto& l : trace_->launches()) EXPECT_TRUE(l.times.begun && l.times.ended);
}

TEST_F(launch_timing_test, has_a_bounded_number_of_timestamps) {
  constexpr std::size_t launches = 4096 + 100;
  gate closed;
  closed.hold(lane_->stream());
  for (std::size_t i = 0; i < launches; ++i) (void)launch(trace_);
  EXPECT_EQ(counters_->created, 2 * 4096u);
  closed.open();
  std::size_t missing = 0;
  for (const auto& l : trace_->wait(launches)) {
    if (!l.times.begun && !l.times.ended) ++missing;
    EXPECT_EQ(l.times.begun.has_value(), l.times.ended.has_value());
  }
  EXPECT_EQ(missing, 100u);
}

TEST_F(launch_timing_test, a_timestamp_that_cannot_be_recorded_is_missing) {
  // Fails the begin of the first launch, the end of the second, and both stamps of the third.
  device_->records = [](std::size_t nth) {
    return nth != 0 && nth != 3 && nth != 4 && nth != 5;
  };
  for (int i = 0; i < 4; ++i) (void)launch(trace_).wait();
  const auto launches = trace_->wait(4);
  const auto known = [&](std::size_t i) {
    return std::pair(launches[i].times.begun.has_value(), launches[i].times.ended.has_value());
  };
  EXPECT_EQ(known(0), std::pair(false, true));
  EXPECT_EQ(known(1), std::pair(true, false));
  EXPECT_EQ(known(2), std::pair(false, false));
  EXPECT_EQ(known(3), std::pair(true, true));
  EXPECT_EQ(launches[2].times.queueing(), std::nullopt);
  EXPECT_EQ(launches[2].times.execution(), std::nullopt);
  EXPECT_EQ(launches[2].times.detection(), std::nullopt);
}

TEST_F(launch_timing_test, timestamps_that_cannot_be_made_are_missing) {
  device_->at_create = [] {
    throw error(errc::library_failure, "no timestamps");
  };
  EXPECT_EQ(launch(trace_).value(), 0);
  const auto times = trace_->wait(1)[0].times;
  EXPECT_FALSE(times.begun || times.ended);
  EXPECT_EQ(counters_->recorded, 0u);
}

TEST_F(launch_timing_test, the_clocks_are_compared_before_reading_and_every_second) {
  counters_->anchor_fails = true;
  (void)launch(trace_).wait();
  EXPECT_FALSE(trace_->wait(1)[0].times.ended);
  EXPECT_EQ(counters_->anchors, 1u);
  counters_->anchor_fails = false;
  // The next comparison is due after a second, whether or not this one failed.
  std::size_t launches = 1;
  while (counters_->anchors < 2) {
    (void)launch(trace_).wait();
    (void)trace_->wait(++launches);
  }
  EXPECT_TRUE(trace_->launches().back().times.ended);
}

TEST_F(launch_timing_test, nothing_is_read_after_the_loss_of_the_device) {
  gate closed;
  closed.hold(lane_->stream());
  const auto box = launch(trace_);
  closed.wait_until_reached();
  device_->lose(error(errc::device_lost, "for a test"));
  EXPECT_EQ(box.failure(), errc::device_lost);
  const auto times = trace_->wait(1)[0].times;
  EXPECT_FALSE(times.begun || times.ended);
  EXPECT_EQ(counters_->reads, 0u);
  EXPECT_EQ(counters_->anchors, 0u);
  closed.open();
}

TEST_F(launch_timing_test, a_failing_launch_is_timed_and_a_refused_one_is_not) {
  const auto failing =
      launch(trace_, [](const launch_context&) { throw error(errc::unsupported, "no"); });
  EXPECT_EQ(failing.failure(), errc::unsupported);
  const auto times = trace_->wait(1)[0].times;
  EXPECT_TRUE(times.begun && times.ended);

  const auto out = service_->runtime().allocate<std::uint32_t>(4, lane_->stream(), "test");
  auto uses = access_all(service_->runtime(), write(out, "out"));
  service_->runtime().deallocate(out.block());
  kernel_envelope envelope({.library = "tests", .operation = "refused"});
  envelope.trace(trace_);
  mailbox<int> box;
  envelope.run(*lane_, std::move(uses), box.token(), 0, {}, [](const launch_context&) {});
  EXPECT_EQ(box.failure(), errc::stale_ref);
  (void)launch(trace_).wait();
  EXPECT_EQ(trace_->wait(2)[1].operation, "nothing");
}

TEST_F(launch_timing_test, all_are_delivered_before_the_service_has_ended) {
  constexpr std::size_t launches = 50;
  for (std::size_t i = 0; i < launches; ++i) (void)launch(trace_);
  lane_.reset();
  service_.reset();
  const auto delivered = trace_->launches();
  ASSERT_EQ(delivered.size(), launches);
  for (std::size_t i = 0; i < launches; ++i) {
    // The envelopes have been destroyed; their names have not.
    EXPECT_EQ(delivered[i].library, "tests");
    EXPECT_EQ(delivered[i].operation, "nothing");
    EXPECT_EQ(delivered[i].label, "a label");
    EXPECT_TRUE(delivered[i].times.ended);
    if (i != 0) {
      EXPECT_LT(delivered[i - 1].launch_id, delivered[i].launch_id);
      EXPECT_LE(delivered[i - 1].times.ended, delivered[i].times.begun);
    }
  }
  device_.reset();
  EXPECT_EQ(counters_->created, counters_->destroyed);
}

TEST_F(launch_timing_test, a_trace_may_hold_the_last_owner_of_the_service) {
  std::weak_ptr<device> watched = device_;
  std::atomic<bool> last{false};
  trace_->in_after_timestamps = [&] {
    await([&] { return last.load(); });
    service_.reset();
  };
  (void)launch(trace_).wait();
  lane_.reset();
  device_.reset();
  last = true;
  await([&] { return watched.expired(); });
  EXPECT_EQ(counters_->created, counters_->destroyed);
}

TEST_F(launch_timing_test, works_with_a_thread_that_waits_for_each_launch) {
  open({.completion = completion_strategy::synchronous});
  (void)launch(trace_).wait();
  const auto times = trace_->wait(1)[0].times;
  ASSERT_TRUE(times.begun && times.ended);
  EXPECT_LE(times.enqueued, *times.begun);
  EXPECT_LE(*times.begun, *times.ended);
  EXPECT_LE(*times.ended, times.detected);
}

TEST_F(launch_timing_test, serves_several_lanes_at_once) {
  constexpr std::size_t threads = 4;
  constexpr std::size_t each = 200;
  std::vector<std::thread> launching;
  for (std::size_t t = 0; t < threads; ++t) {
    launching.emplace_back([&] {
      lane test_lane(service_);
      kernel_envelope envelope({.library = "tests", .operation = "nothing"});
      envelope.trace(trace_);
      for (std::size_t i = 0; i < each; ++i) {
        mailbox<int> box;
        envelope.run(test_lane, operands(), box.token(), 0, {},
                     [](const launch_context& context) { context.submit_host([] {}); });
        if (i % 16 == 0) (void)box.wait();
      }
    });
  }
  for (auto& t : launching) t.join();
  for (const auto& l : trace_->wait(threads * each)) {
    ASSERT_TRUE(l.times.begun && l.times.ended);
    EXPECT_LE(l.times.enqueued, *l.times.begun);
    EXPECT_LE(*l.times.begun, *l.times.ended);
    EXPECT_LE(*l.times.ended, l.times.detected);
  }
}

class launch_timing_on : public service_test {};

TEST_P(launch_timing_on, every_launch_has_its_times) {
  const auto trace = std::make_shared<timing_trace>();
  const auto out = allocate();
  kernel_envelope envelope({.library = "tests", .operation = "fill"});
  envelope.trace(trace);
  for (std::uint32_t value = 1; value <= 20; ++value) {
    mailbox<words> box;
    envelope.run(test_lane(), access_all(runtime(), write(out, "out")), box.token(), out, {},
                 filling(out, value));
    EXPECT_EQ(box.failure(), std::nullopt);
  }
  for (const auto& l : trace->wait(20)) {
    ASSERT_TRUE(l.times.begun && l.times.ended);
    EXPECT_LE(l.times.enqueued, *l.times.begun);
    EXPECT_LE(*l.times.begun, *l.times.ended);
    EXPECT_LE(*l.times.ended, l.times.detected);
  }
  expect_filled(out, 20);
}

INSTANTIATE_TEST_SUITE_P(devices, launch_timing_on,
                         testing::Combine(every_device(), every_strategy()), name_of_where);

}  // namespace
