// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/own_thread.hpp"
#include "tests/envelope/launches.hpp"
#include "tests/envelope/recording_trace.hpp"
#include "tests/envelope/timing_trace.hpp"

#include <sluice/envelope/nvtx_trace.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::test;
using names = std::vector<std::string>;

const names all_hooks{"before_enqueue", "after_enqueue", "before_complete", "after_complete"};

void launch(device_service& service, std::shared_ptr<kernel_trace> trace, bool fails = false) {
  lane test_lane(std::shared_ptr<device_service>(&service, [](device_service*) {}));
  kernel_envelope envelope({.library = "tests", .operation = "nothing"});
  envelope.trace(std::move(trace)).nvtx_label("a label");
  mailbox<int> box;
  envelope.run(test_lane, operands(), box.token(), 0, {}, [&](const launch_context&) {
    if (fails) throw error(errc::unsupported, "no");
  });
  (void)box.wait();
  settle(service);
}

TEST(fan_out_trace, calls_every_trace_in_order) {
  device_service service("host");
  auto first = std::make_shared<recording_trace>();
  auto second = std::make_shared<recording_trace>();
  names order;
  first->in_hook = [&](const std::string& hook) {
    order.push_back("first " + hook);
  };
  second->in_hook = [&](const std::string& hook) {
    order.push_back("second " + hook);
  };
  launch(service, std::make_shared<fan_out_trace>(
                      std::vector<std::shared_ptr<kernel_trace>>{first, second}));
  EXPECT_EQ(first->names(), all_hooks);
  EXPECT_EQ(second->names(), all_hooks);
  names expected;
  for (const auto& hook : all_hooks) {
    expected.push_back("first " + hook);
    expected.push_back("second " + hook);
  }
  EXPECT_EQ(order, expected);
}

TEST(fan_out_trace, passes_failures_on) {
  device_service service("host");
  auto trace = std::make_shared<recording_trace>();
  launch(service,
         std::make_shared<fan_out_trace>(std::vector<std::shared_ptr<kernel_trace>>{trace}), true);
  const auto calls = trace->calls();
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[1].failure, errc::unsupported);
  EXPECT_EQ(calls[3].failure, errc::unsupported);
}

TEST(fan_out_trace, one_that_throws_does_not_silence_the_others) {
  device_service service("host");
  auto throwing = std::make_shared<recording_trace>();
  throwing->in_hook = [](const std::string&) {
    throw std::runtime_error("from a hook");
  };
  auto quiet = std::make_shared<recording_trace>();
  const auto dropped = dropped_trace_exceptions();
  launch(service, std::make_shared<fan_out_trace>(
                      std::vector<std::shared_ptr<kernel_trace>>{throwing, nullptr, quiet}));
  EXPECT_EQ(quiet->names(), all_hooks);
  EXPECT_EQ(dropped_trace_exceptions(), dropped + 4);
}

TEST(fan_out_trace, passes_timestamps_to_those_who_want_them) {
  auto timing = std::make_shared<timing_trace>();
  auto recording = std::make_shared<recording_trace>();
  const fan_out_trace without({recording, nullptr});
  EXPECT_FALSE(without.wants_timestamps());
  {
    device_service service("host");
    launch(service, std::make_shared<fan_out_trace>(
                        std::vector<std::shared_ptr<kernel_trace>>{recording, nullptr, timing}));
  }
  EXPECT_EQ(recording->names(), all_hooks);
  ASSERT_EQ(timing->launches().size(), 1u);
  EXPECT_TRUE(timing->launches()[0].times.ended);
}

TEST(kernel_trace, is_asked_for_timestamps_as_code_of_the_program) {
  class asked_trace final : public kernel_trace {
   public:
    [[nodiscard]] bool wants_timestamps() const noexcept override {
      in_scope_ = in_scope_ && detail::own_thread::here().suspended != 0;
      ++queries_;
      return true;
    }
    mutable std::atomic<bool> in_scope_{true};
    mutable std::atomic<int> queries_{0};
  };
  const auto trace = std::make_shared<asked_trace>();
  {
    device_service service("host");
    launch(service, trace);
    EXPECT_EQ(trace->queries_, 1);
    launch(service,
           std::make_shared<fan_out_trace>(std::vector<std::shared_ptr<kernel_trace>>{trace}));
  }
  EXPECT_EQ(trace->queries_, 3);  // once more for `after_timestamps`
  EXPECT_TRUE(trace->in_scope_);
}

// In a child process, where no hook has thrown before.
TEST(kernel_trace_deathtest, reports_the_first_exception_with_its_text) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto throw_twice = [] {
    for (const char* text : {"the first text", "the second text"}) {
      auto trace = std::make_shared<recording_trace>();
      trace->in_hook = [text](const std::string& hook) {
        if (hook == "after_complete") throw std::runtime_error(text);
      };
      device_service service("host");
      launch(service, trace);
    }
    std::exit(dropped_trace_exceptions() == 2 ? 0 : 1);
  };
  EXPECT_EXIT(throw_twice(), testing::ExitedWithCode(0), "trace hook.*the first text\n$");
}

TEST(kernel_trace, has_empty_hooks) {
  device_service service("host");
  launch(service, std::make_shared<kernel_trace>());
}

TEST(nvtx_trace, is_harmless) {
  device_service service("host");
#if defined(SLUICE_HAS_CUDA)
  EXPECT_TRUE(nvtx_trace::available());
#else
  EXPECT_FALSE(nvtx_trace::available());
#endif
  const auto trace = std::make_shared<nvtx_trace>();
  const auto dropped = dropped_trace_exceptions();
  for (int i = 0; i < 10; ++i) launch(service, trace, i % 2 == 1);
  EXPECT_EQ(dropped_trace_exceptions(), dropped);
}

}  // namespace
