// SPDX-License-Identifier: Apache-2.0
// Streams, events, copies and tasks of the host device.
#include "tests/runtime/host/host_device_test.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

TEST_F(host_device, says_what_it_is) {
  const auto info = tested().info();
  EXPECT_EQ(info.id, (device_id{device_kind::host, 0}));
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.memory_bytes, std::size_t{1} << 20U);
  EXPECT_GE(info.multiprocessors, 1);
  EXPECT_EQ(info.compute_capability, 0);
  EXPECT_TRUE(tested().reports_task_failures());
}

TEST(host_device_options_test, out_of_range_are_refused) {
  EXPECT_TRUE(
      throws(errc::invalid_argument, "ordinal", [] { (void)open_host_device({.ordinal = -1}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "jitter.longest", [] {
    (void)open_host_device({.jitter = host_jitter{.longest = std::chrono::microseconds(-1)}});
  }));
}

TEST_F(host_device, runs_a_streams_work_in_order_on_a_thread_of_its_own) {
  auto* s = tested().create_stream();
  std::vector<int> seen;
  std::thread::id ran_on;
  for (int i = 0; i < 1000; ++i) run_on(s, [&seen, i] { seen.push_back(i); });
  run_on(s, [&] { ran_on = std::this_thread::get_id(); });
  tested().synchronize(s);
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
  EXPECT_NE(ran_on, std::this_thread::get_id());
  tested().destroy_stream(s);
}

TEST_F(host_device, a_gate_in_one_stream_does_not_hold_another) {
  std::atomic<bool> gate{false};
  auto* held = tested().create_stream();
  auto* other = tested().create_stream();
  std::atomic<bool> passed{false};
  hold(held, gate);
  run_on(held, [&] { passed.store(true); });
  std::atomic<int> count{0};
  for (int i = 0; i < 100; ++i) run_on(other, [&] { count.fetch_add(1); });
  tested().synchronize(other);  // returns although the first stream is blocked
  EXPECT_EQ(count.load(), 100);
  EXPECT_FALSE(passed.load());
  open(gate);
  tested().synchronize(held);
  EXPECT_TRUE(passed.load());
}

TEST_F(host_device, submitting_does_not_wait) {
  std::atomic<bool> gate{false};
  auto* s = tested().create_stream();
  hold(s, gate);
  std::vector<std::byte> memory(1000);
  const std::byte one{1};
  for (int i = 0; i < 10'000; ++i) {
    tested().fill(memory.data(), &one, 1, memory.size(), s);
  }
  EXPECT_EQ(memory[0], std::byte{0}) << "nothing has run yet";
  open(gate);
  tested().synchronize(s);
  EXPECT_EQ(memory[0], one);
}

TEST_F(host_device, destroying_a_stream_lets_its_work_finish) {
  std::atomic<bool> gate{false};
  auto* s = tested().create_stream();
  auto* event = tested().create_event();
  std::atomic<int> count{0};
  hold(s, gate);
  for (int i = 0; i < 10; ++i) run_on(s, [&] { count.fetch_add(1); });
  tested().record(event, 1, s);
  tested().destroy_stream(s);  // returns at once
  EXPECT_EQ(tested().query(event, 1), event_state::pending);
  open(gate);
  await([&] { return tested().query(event, 1) == event_state::complete; });
  tested().acquire(event, 1);
  EXPECT_EQ(count.load(), 10);
  tested().destroy_event(event);
}

TEST_F(host_device, streams_come_and_go) {
  for (int i = 0; i < 300; ++i) {
    auto* s = tested().create_stream();
    run_on(s, [] {});
    tested().destroy_stream(s);
  }
}

// Events

TEST_F(host_device, an_event_completes_with_the_work_before_it) {
  std::atomic<bool> gate{false};
  auto* s = tested().create_stream();
  auto* event = tested().create_event();
  EXPECT_EQ(tested().query(event, 1), event_state::pending) << "never recorded";
  hold(s, gate);
  tested().record(event, 1, s);
  EXPECT_EQ(tested().query(event, 1), event_state::pending);
  open(gate);
  tested().synchronize(s);
  EXPECT_EQ(tested().query(event, 1), event_state::complete);
  EXPECT_EQ(tested().query(event, 2), event_state::pending) << "the next record";
  tested().record(event, 2, s);
  tested().synchronize(s);
  EXPECT_EQ(tested().query(event, 1), event_state::complete) << "an older record stays complete";
  EXPECT_EQ(tested().query(event, 2), event_state::complete);
}

TEST_F(host_device, waiting_for_an_event_that_was_never_recorded_is_an_error) {
  auto* s = tested().create_stream();
  auto* event = tested().create_event();
  EXPECT_TRUE(throws(errc::stream_misuse, "recorded", [&] { tested().wait(s, event, 1); }));
  tested().record(event, 1, s);
  EXPECT_NO_THROW(tested().wait(s, event, 1));
  EXPECT_TRUE(throws(errc::stream_misuse, "recorded", [&] { tested().wait(s, event, 2); }));
  tested().synchronize(s);
}

TEST_F(host_device, a_wait_captures_the_record_at_the_call) {
  std::atomic<bool> first_gate{false};
  std::atomic<bool> second_gate{false};
  auto* source = tested().create_stream();
  auto* waiter = tested().create_stream();
  auto* event = tested().create_event();
  hold(source, first_gate);
  tested().record(event, 1, source);
  tested().wait(waiter, event, 1);
  std::atomic<bool> through{false};
  run_on(waiter, [&] { through.store(true); });
  // The event is recorded again behind a second gate. A stream that waits for the first record does
  // not wait for the second one.
  hold(source, second_gate);
  tested().record(event, 2, source);
  EXPECT_FALSE(through.load());
  open(first_gate);
  tested().synchronize(waiter);
  EXPECT_TRUE(through.load());
  EXPECT_EQ(tested().query(event, 2), event_state::pending);
  open(second_gate);
  tested().synchronize(source);
}

TEST_F(host_device, a_wait_occupies_only_its_stream) {
  std::atomic<bool> gate{false};
  auto* source = tested().create_stream();
  auto* waiter = tested().create_stream();
  auto* other = tested().create_stream();
  auto* event = tested().create_event();
  hold(source, gate);
  tested().record(event, 1, source);
  tested().wait(waiter, event, 1);
  tested().wait(waiter, event, 1);
  tested().synchronize(other);
  open(gate);
  tested().synchronize(waiter);
}

TEST_F(host_device, a_stream_follows_one_of_another_device) {
  const auto other = open_host_device();
  std::atomic<bool> gate{false};
  std::atomic<bool> second_gate{false};
  auto* source = other->create_stream();
  auto* follower = tested().create_stream();
  int written = 0;  // not atomic, so that ThreadSanitizer judges
  int seen = 0;
  other->notify(source, [&] {
    gate.wait(false);
    written = 7;
  });
  tested().follow(follower, source);
  run_on(follower, [&] { seen = written; });
  // Work queued later is not waited for.
  other->notify(source, [&] { second_gate.wait(false); });
  open(gate);
  tested().synchronize(follower);
  EXPECT_EQ(seen, 7);
  // The opposite direction.
  other->notify(source, [&] { written = 8; });
  tested().follow(source, follower);
  open(second_gate);
  other->synchronize(source);
}

TEST_F(host_device, following_ends_with_the_loss_of_either_device) {
  for (const bool of_source : {false, true}) {
    std::atomic<bool> gate{false};
    const auto source_device = open_host_device();
    const auto device = open_host_device();
    auto* source = source_device->create_stream();
    auto* follower = device->create_stream();
    auto* event = device->create_event();
    source_device->notify(source, [&] { gate.wait(false); });
    device->follow(follower, source);
    device->record(event, 1, follower);
    (of_source ? source_device : device)->lose(error(errc::library_failure, "smoke"));
    if (of_source) {
      open(gate);
      await([&] { return device->query(event, 1) != event_state::pending; });
      EXPECT_EQ(device->query(event, 1), event_state::failed);
      EXPECT_EQ(device->failure_of(event).code(), errc::device_lost);
    } else {
      await([&] { return device->quiescent(follower); });
      EXPECT_TRUE(throws(errc::device_lost, "smoke", [&] { device->follow(follower, source); }));
      open(gate);
    }
  }
}

TEST_F(host_device, notifies_behind_the_work_before) {
  auto* s = tested().create_stream();
  int order = 0;
  std::atomic<int> told{0};
  run_on(s, [&] { order = 1; });
  tested().notify(s, [&] { told.store(order + 1); });
  tested().synchronize(s);
  EXPECT_EQ(told.load(), 2);
}

// Copies and fills

TEST_F(host_device, copies) {
  auto generator = make_generator();
  auto* s = tested().create_stream();
  // The threads of the device help with the largest.
  for (const std::size_t bytes : {1U, 10'001U, 2'048'000U, 20'000'003U}) {
    std::vector<std::byte> source(bytes);
    for (auto& b : source) b = static_cast<std::byte>(generator());
    std::vector<std::byte> middle(bytes);
    std::vector<std::byte> destination(bytes + 1);
    tested().copy(middle.data(), source.data(), bytes, copy_direction::host_to_device, s);
    tested().copy(destination.data(), middle.data(), bytes, copy_direction::device_to_host, s);
    tested().copy(nullptr, nullptr, 0, copy_direction::device_to_device, s);
    tested().synchronize(s);
    EXPECT_EQ(destination.back(), std::byte{0});
    destination.pop_back();
    EXPECT_TRUE(destination == source) << bytes;
  }
}

TEST_F(host_device, fills_with_patterns_of_1_2_4_8_and_16_bytes) {
  auto generator = make_generator();
  auto* s = tested().create_stream();
  for (const std::size_t size : {1, 2, 4, 8, 16}) {
    for (const std::size_t count : {0, 1, 3, 1000}) {
      std::array<std::byte, 16> pattern{};
      for (auto& b : pattern) b = static_cast<std::byte>(generator());
      alignas(16) std::array<std::byte, 16'032> memory{};
      const auto expected = pattern;
      tested().fill(memory.data() + 16, pattern.data(), size, count, s);
      pattern.fill(std::byte{0});  // the fill has copied the pattern during the call
      tested().synchronize(s);
      for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(memory[i], std::byte{0});
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(std::memcmp(memory.data() + 16 + i * size, expected.data(), size), 0);
      }
      for (std::size_t i = 16 + count * size; i < memory.size(); ++i) {
        ASSERT_EQ(memory[i], std::byte{0}) << "written behind the end";
      }
    }
  }
}

TEST_F(host_device, refuses_other_patterns) {
  auto* s = tested().create_stream();
  std::array<std::byte, 64> memory{};
  for (const std::size_t size : {0, 3, 5, 6, 12, 17, 32}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "pattern_bytes", [&] {
      tested().fill(memory.data(), memory.data(), size, 1, s);
    })) << size;
  }
}

TEST_F(host_device, gives_aligned_memory_and_takes_it_back) {
  auto* s = tested().create_stream();
  for (const std::size_t bytes : {1, 100, 256, 5000, 1 << 20, (1 << 22) + 300}) {
    auto* direct = tested().allocate(bytes);
    auto* ordered = tested().allocate_async(bytes, s);
    auto* staging = tested().allocate_staging(bytes);
    for (auto* address : {direct, ordered, staging}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % 256, 0u);
    }
    const std::byte one{1};
    tested().fill(ordered, &one, 1, bytes, s);
    tested().synchronize(s);
    std::memset(direct, 1, bytes);
    std::memset(staging, 1, bytes);
    EXPECT_EQ(std::memcmp(direct, ordered, bytes), 0);
    tested().deallocate(direct);
    tested().deallocate_async(ordered, s);
    tested().deallocate_staging(staging);
  }
}

// Jitter

TEST(host_device_with_jitter, changes_no_result) {
  auto generator = make_generator();
  const auto jittery = open_host_device(
      {.jitter = host_jitter{.seed = generator(), .longest = std::chrono::microseconds(50)}});
  auto* source = jittery->create_stream();
  auto* waiter = jittery->create_stream();
  auto* event = jittery->create_event();
  std::uint32_t value = 0;
  std::uint32_t copied = 0;
  std::vector<std::uint32_t> seen;
  for (std::uint32_t i = 1; i <= 100; ++i) {
    jittery->fill(&value, &i, sizeof i, 1, source);
    jittery->record(event, 2 * i, source);
    jittery->wait(waiter, event, 2 * i);
    jittery->copy(&copied, &value, sizeof value, copy_direction::device_to_device, waiter);
    jittery->notify(waiter, [&] { seen.push_back(copied); });
    jittery->record(event, 2 * i + 1, waiter);
    jittery->wait(source, event, 2 * i + 1);
  }
  jittery->synchronize(waiter);
  ASSERT_EQ(seen.size(), 100u);
  for (std::uint32_t i = 1; i <= 100; ++i) EXPECT_EQ(seen[i - 1], i);
}

// Tasks

TEST(host_task, of_a_retired_stream_is_refused) {
  device_runtime runtime(open_host_device());
  auto s = runtime.create_stream();
  const auto ref = s.ref();
  s = {};
  const auto other = runtime.create_stream();  // joins the thread of the retired stream
  EXPECT_TRUE(throws(errc::stream_misuse, "stream has been destroyed",
                     [&] { submit_host_task(ref, [] {}); }));
}

TEST(host_task, may_own_what_cannot_be_copied) {
  device_runtime runtime(open_host_device());
  const auto s = runtime.create_stream();
  std::atomic<int> got{0};
  submit_host_task(s, [owned = std::make_unique<int>(3), &got] { got.store(*owned); });
  s.synchronize();
  EXPECT_EQ(got.load(), 3);
  EXPECT_TRUE(
      throws(errc::stream_misuse, "no stream", [] { submit_host_task(stream_ref(), [] {}); }));
}

}  // namespace
}  // namespace sluice::test
