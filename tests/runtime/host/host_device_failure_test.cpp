// SPDX-License-Identifier: Apache-2.0
// Scripted faults of the host device, and its loss.
#include "tests/runtime/host/host_device_test.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST(fault_script, strikes_once_at_the_nth_operation_of_its_kind) {
  fault_script script;
  EXPECT_FALSE(script.strikes(fault_target::launch));
  script.fail_nth(fault_target::launch, 3);
  EXPECT_FALSE(script.strikes(fault_target::copy));
  EXPECT_FALSE(script.strikes(fault_target::launch));
  EXPECT_FALSE(script.strikes(fault_target::launch));
  EXPECT_TRUE(script.strikes(fault_target::launch));
  EXPECT_FALSE(script.strikes(fault_target::launch));
  script.fail_nth(fault_target::launch, 5);
  script.fail_nth(fault_target::launch, 1);
  EXPECT_TRUE(script.strikes(fault_target::launch)) << "a second call replaces the first";
  script.fail_nth(fault_target::launch, 1);
  script.fail_nth(fault_target::launch, 0);
  EXPECT_FALSE(script.strikes(fault_target::launch));
  script.fail_nth(fault_target::launch, 2, ~std::uint64_t{0});
  EXPECT_FALSE(script.strikes(fault_target::launch));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(script.strikes(fault_target::launch)) << "for ever";
}

TEST(fault_script, strikes_exactly_once_whoever_asks) {
  fault_script script;
  script.fail_nth(fault_target::copy, 500);
  std::atomic<int> struck{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) {
        if (script.strikes(fault_target::copy)) struck.fetch_add(1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(struck.load(), 1);
}

class host_device_with_faults : public host_device {
 protected:
  host_device_with_faults() : host_device_with_faults(std::make_shared<fault_script>()) {}
  [[nodiscard]] fault_script& script() { return *script_; }

 private:
  explicit host_device_with_faults(std::shared_ptr<fault_script> script)
      : host_device({.faults = script}), script_(std::move(script)) {}
  std::shared_ptr<fault_script> script_;
};

TEST_F(host_device_with_faults, the_next_record_tells_the_failure_once) {
  auto* s = tested().create_stream();
  auto* first = tested().create_event();
  auto* second = tested().create_event();
  std::uint32_t value = 0;
  const std::uint32_t seven = 7;
  script().fail_nth(fault_target::copy, 1);
  tested().fill(&value, &seven, sizeof seven, 1, s);
  tested().record(first, 1, s);
  tested().fill(&value, &seven, sizeof seven, 1, s);
  tested().record(second, 1, s);
  tested().synchronize(s);
  EXPECT_EQ(tested().query(first, 1), event_state::failed);
  EXPECT_EQ(tested().failure_of(first).code(), errc::library_failure);
  EXPECT_EQ(tested().query(second, 1), event_state::complete);
  EXPECT_EQ(value, 7u);
}

TEST_F(host_device_with_faults, synchronising_takes_no_failure_away) {
  auto* s = tested().create_stream();
  auto* event = tested().create_event();
  std::uint32_t value = 0;
  script().fail_nth(fault_target::copy, 1);
  tested().fill(&value, &value, sizeof value, 1, s);
  tested().synchronize(s);
  tested().record(event, 1, s);
  tested().synchronize(s);
  EXPECT_EQ(tested().query(event, 1), event_state::failed);
}

TEST_F(host_device_with_faults, an_allocation_fails_as_scripted) {
  auto* s = tested().create_stream();
  script().fail_nth(fault_target::allocation, 2);
  auto* kept = tested().allocate(100);
  EXPECT_TRUE(
      throws(errc::out_of_memory, "scripted", [&] { (void)tested().allocate_async(100, s); }));
  auto* more = tested().allocate_async(100, s);
  tested().deallocate(kept);
  tested().deallocate_async(more, s);
}

// Loss

TEST_F(host_device, loss_discards_what_has_not_begun) {
  std::atomic<bool> gate{false};
  std::atomic<bool> began{false};
  std::atomic<bool> finished{false};
  std::atomic<int> discarded{0};
  auto* s = tested().create_stream();
  auto* waiter = tested().create_stream();
  auto* event = tested().create_event();
  run_on(s, [&] {
    began.store(true);
    gate.wait(false);
    finished.store(true);
  });
  for (int i = 0; i < 10; ++i) run_on(s, [&] { discarded.fetch_add(1); });
  tested().record(event, 1, s);
  tested().wait(waiter, event, 1);
  run_on(waiter, [&] { discarded.fetch_add(1); });
  await([&] { return began.load(); });
  EXPECT_FALSE(tested().quiescent(s)) << "not lost";

  tested().lose(error(errc::library_failure, "smoke"));
  tested().lose(error(errc::library_failure, "a second cause does not count"));
  EXPECT_TRUE(tested().lost());
  EXPECT_EQ(tested().loss().code(), errc::device_lost);
  EXPECT_NE(std::string(tested().loss().what()).find("smoke"), std::string::npos);
  EXPECT_EQ(tested().query(event, 1), event_state::lost);
  await([&] { return tested().quiescent(waiter); });  // the loss ends its wait
  EXPECT_FALSE(tested().quiescent(s)) << "a task is still running";
  open(gate);
  await([&] { return tested().quiescent(s); });
  EXPECT_TRUE(finished.load());
  EXPECT_EQ(discarded.load(), 0);

  for (const auto refused : {0, 1, 2, 3, 4, 5, 6, 7, 8}) {
    EXPECT_TRUE(throws(errc::device_lost, "smoke", [&] {
      int value = 0;
      switch (refused) {
        case 0:
          (void)tested().create_stream();
          break;
        case 1:
          tested().synchronize(s);
          break;
        case 2:
          tested().record(event, 2, s);
          break;
        case 3:
          tested().wait(s, event, 1);
          break;
        case 4:
          (void)tested().allocate(16);
          break;
        case 5:
          (void)tested().allocate_async(16, s);
          break;
        case 6:
          tested().copy(&value, &value, sizeof value, copy_direction::device_to_device, s);
          break;
        case 7:
          tested().fill(&value, &value, sizeof value, 1, s);
          break;
        default:
          tested().notify(s, [] {});
      }
    })) << refused;
  }
}

TEST_F(host_device, loss_wakes_who_synchronises) {
  std::atomic<bool> gate{false};
  auto* s = tested().create_stream();
  std::atomic<bool> began{false};
  run_on(s, [&] {
    began.store(true);
    gate.wait(false);
  });
  await([&] { return began.load(); });
  std::thread waiting(
      [&] { EXPECT_TRUE(throws(errc::device_lost, "smoke", [&] { tested().synchronize(s); })); });
  tested().lose(error(errc::library_failure, "smoke"));
  waiting.join();
  open(gate);
  await([&] { return tested().quiescent(s); });
}

TEST_F(host_device, what_was_complete_before_the_loss_stays_complete) {
  auto* s = tested().create_stream();
  auto* event = tested().create_event();
  tested().record(event, 1, s);
  tested().synchronize(s);
  tested().lose(error(errc::library_failure, "smoke"));
  EXPECT_EQ(tested().query(event, 1), event_state::complete);
}

TEST_F(host_device_with_faults, is_lost_at_the_nth_task_as_scripted) {
  auto* s = tested().create_stream();
  std::uint32_t target = 0;
  const std::uint32_t value = 1;
  script().fail_nth(fault_target::loss, 2);
  tested().copy(&target, &target, 0, copy_direction::device_to_device, s);
  tested().fill(&target, &value, sizeof value, 1, s);
  EXPECT_FALSE(tested().lost());
  tested().fill(&target, &value, sizeof value, 1, s);
  EXPECT_TRUE(tested().lost());
  await([&] { return tested().quiescent(s); });
}

// After a loss, deferred frees must not free memory that a running task uses. The sanitizers would
// report it.
TEST(lost_host_device, keeps_memory_that_a_running_task_touches) {
  auto device = open_host_device();
  auto runtime = std::make_unique<device_runtime>(
      device, runtime_options{.resource = make_direct_resource({.tracked = true}),
                              .drain_timeout = std::chrono::milliseconds(0)});
  std::atomic<bool> gate{false};
  std::atomic<bool> began{false};
  const auto s = runtime->create_stream();
  auto* native = s.ref().native();
  auto a = runtime->allocate<std::uint32_t>(1000, s);
  {
    auto recorder = begin_write(a, s);
    submit_host_task(s, [&, data = a.data()] {
      began.store(true);
      gate.wait(false);
      for (std::size_t i = 0; i < 1000; ++i) data[i] = 1;
    });
    (void)recorder.commit();
  }
  await([&] { return began.load(); });
  a = {};           // the reclaim thread waits for the launch
  runtime.reset();  // the timeout is zero, so the device is declared lost
  EXPECT_TRUE(device->lost());
  gate.store(true);
  gate.notify_all();
  await([&] { return device->quiescent(native); });
}

}  // namespace
}  // namespace sluice::test
