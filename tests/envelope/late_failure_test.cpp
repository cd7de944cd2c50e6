// SPDX-License-Identifier: Apache-2.0
#include "tests/envelope/kernel_failure.hpp"
#include "tests/support/compute_sanitizer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// Faults while the stream is behind a closed gate.
class gated_failure_test : public kernel_failure_test {};

TEST_P(gated_failure_test, a_failed_closure_is_answered_at_once_and_its_owners_wait) {
  gate closed;
  const auto before = runtime().bytes_outstanding();
  closed.hold(test_lane().stream());
  {
    const auto out = allocate();
    run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
               [&](const launch_context& context) {
                 filling(out, 1)(context);
                 throw error(errc::library_failure, "half way");
               });
  }
  EXPECT_EQ(box_.failure(), errc::library_failure);
  EXPECT_EQ(runtime().bytes_outstanding(), before + 64 * sizeof(std::uint32_t));
  EXPECT_EQ(service_->engine().pending(), 1u);
  closed.open();
  expect_failure(box_, errc::library_failure);
  EXPECT_EQ(runtime().bytes_outstanding(), before);
}

TEST_P(gated_failure_test, destroying_the_lane_leaves_its_launches_alone) {
  gate closed;
  const auto out = allocate();
  const auto before = allocate();
  fill(before, 1);
  closed.hold(test_lane().stream());
  run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
             filling(out, 6));
  lane_ = std::make_unique<lane>(service_);
  EXPECT_EQ(box_.count(), 0u);
  closed.open();
  EXPECT_EQ(box_.failure(), std::nullopt);
  expect_filled(out, 6);
}

TEST_P(gated_failure_test, destroying_the_service_waits_for_its_launches) {
  gate closed;
  std::vector<mailbox<int>> boxes(20);
  {
    const auto out = allocate();
    closed.hold(test_lane().stream());
    for (auto& box : boxes) {
      run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box.token(), 1,
                 filling(out, 6));
    }
  }
  lane_.reset();
  std::thread destroying([&] { service_.reset(); });
  for (const auto& box : boxes) EXPECT_EQ(box.count(), 0u);
  closed.open();
  destroying.join();
  for (const auto& box : boxes) {
    ASSERT_EQ(box.count(), 1u);
    EXPECT_EQ(box.failure(), std::nullopt);
  }
  open_service();
}

TEST_P(gated_failure_test, loss_answers_everything_at_once_and_keeps_owners_until_rest) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("a lost GPU keeps its memory");
  lane second(service_);
  gate closed;
  auto plan = std::make_shared<int>(1);
  const std::weak_ptr<int> plan_alive = plan;
  std::vector<mailbox<words>> boxes(6);
  {
    const auto x = allocate();
    fill(x, 1);
    closed.hold(test_lane().stream());
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      auto uses = access_all(runtime(), read_write(x, "x"));
      uses.keep(plan);
      // One stream is behind the gate; the other waits for the first.
      run_kernel(i % 2 == 0 ? test_lane() : second, std::move(uses), boxes[i].token(), x,
                 filling(x, 2));
    }
    plan.reset();
  }
  closed.wait_until_reached(1);
  device_->lose(error(errc::library_failure, "the cause"));
  for (const auto& box : boxes) EXPECT_EQ(box.failure(), errc::device_lost);
  // The gated stream is not quiescent, so the owners of its launch stay.
  EXPECT_FALSE(plan_alive.expired());
  closed.open();
  settle(*service_);
  while (!plan_alive.expired()) {
    runtime().reap_pending();
    std::this_thread::yield();
  }
  for (const auto& box : boxes) EXPECT_EQ(box.count(), 1u);
  EXPECT_EQ(test_lane().in_flight(), 0u);
  mailbox<words> next;
  run_kernel(second, operands(), next.token(), words(),
             [](const launch_context&) { FAIL() << "must not run"; });
  EXPECT_EQ(next.failure(), errc::device_lost);
}

// The output of a lost launch stays with the launch.
TEST_P(gated_failure_test, loss_keeps_the_output) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("a lost GPU keeps its memory");
  gate closed;
  auto output = std::make_shared<int>(1);
  const std::weak_ptr<int> output_alive = output;
  mailbox<std::shared_ptr<int>> box;
  closed.hold(test_lane().stream());
  const kernel_envelope envelope({.library = "tests", .operation = "output"});
  envelope.run(test_lane(), operands(), box.token(), std::move(output), {},
               [](const launch_context&) {});
  closed.wait_until_reached(1);
  device_->lose(error(errc::library_failure, "the cause"));
  EXPECT_EQ(box.failure(), errc::device_lost);
  EXPECT_FALSE(output_alive.expired());
  closed.open();
  while (!output_alive.expired()) {
    runtime().reap_pending();
    std::this_thread::yield();
  }
  EXPECT_EQ(box.count(), 1u);
}

TEST_P(gated_failure_test, a_service_that_cannot_finish_declares_the_device_lost) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("a lost GPU keeps its memory");
  runtime_options options;
  options.drain_timeout = std::chrono::milliseconds(20);
  open_service(std::move(options));
  gate closed;
  {
    const auto out = allocate();
    closed.hold(test_lane().stream());
    run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box_.token(), out,
               filling(out, 6));
  }
  lane_.reset();
  std::thread destroying([&] { service_.reset(); });
  EXPECT_EQ(box_.failure(), errc::device_lost);
  closed.open();
  destroying.join();
  EXPECT_EQ(box_.count(), 1u);
}

INSTANTIATE_TEST_SUITE_P(devices, gated_failure_test,
                         testing::Combine(every_device(), asynchronous_strategies()),
                         name_of_where);

class gated_host_failure_test : public kernel_failure_test {};

TEST_P(gated_host_failure_test, an_enqueued_reply_hands_a_late_failure_down_the_chain) {
  lane second(service_);
  const auto x = allocate();
  const auto y = allocate();
  gate closed;
  closed.hold(test_lane().stream());
  kernel_envelope envelope({.library = "tests", .operation = "chain"});
  mailbox<words> early;
  envelope.run(test_lane(), access_all(runtime(), write(x, "x")), early.token(), x,
               {.when = reply_on::enqueued}, [](const launch_context& context) {
                 context.submit_host([] { throw std::runtime_error("the first link"); });
               });
  EXPECT_EQ(early.failure(), std::nullopt);
  mailbox<words> middle;
  envelope.run(second, access_all(runtime(), read(x, "x"), write(y, "y")), middle.token(), y,
               {.when = reply_on::enqueued}, copying(y, x));
  EXPECT_EQ(middle.failure(), std::nullopt);
  mailbox<words> last;
  envelope.run(test_lane(), access_all(runtime(), read_write(y, "y")), last.token(), y, {},
               [](const launch_context& context) { context.submit_host([] {}); });
  EXPECT_EQ(last.count(), 0u);
  closed.open();
  const auto answer = last.wait();
  ASSERT_TRUE(answer.failure);
  EXPECT_EQ(answer.failure->code(), errc::upstream_failed);
  EXPECT_NE(std::string(answer.failure->what()).find("the first link"), std::string::npos);
  settle(*service_);
  EXPECT_EQ(early.count() + middle.count() + last.count(), 3u);
  // The failure is known now: the next reader is refused before it is launched.
  run_kernel(second, access_all(runtime(), read(y, "y")), box_.token(), y,
             [](const launch_context&) { FAIL() << "must not run"; });
  expect_failure(box_, errc::upstream_failed, "the first link");
}

INSTANTIATE_TEST_SUITE_P(devices, gated_host_failure_test,
                         testing::Combine(testing::Values(std::string("host")),
                                          asynchronous_strategies()),
                         name_of_where);

TEST(synchronous_failure, a_lost_device_is_answered_before_its_stream_has_come_to_rest) {
  const auto device = open_host_device();
  auto service = std::make_shared<device_service>(
      device, device_service_options{{}, completion_strategy::synchronous});
  lane test_lane(service);
  gate closed;
  const mailbox<int> box;
  auto plan = std::make_shared<int>(1);
  const std::weak_ptr<int> plan_alive = plan;
  std::thread launching([&] {
    operands uses;
    uses.keep(std::move(plan));
    closed.hold(test_lane.stream());
    run_kernel(test_lane, std::move(uses), box.token(), 1, [](const launch_context&) {});
  });
  while (test_lane.in_flight() == 0) std::this_thread::yield();
  closed.wait_until_reached(1);
  device->lose(error(errc::library_failure, "the cause"));
  EXPECT_EQ(box.failure(), errc::device_lost);
  EXPECT_FALSE(plan_alive.expired());
  closed.open();
  launching.join();
  await([&] {
    service->runtime().reap_pending();
    return plan_alive.expired();
  });
}

}  // namespace
}  // namespace sluice::test
