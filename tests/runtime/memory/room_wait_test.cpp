// SPDX-License-Identifier: Apache-2.0
// An allocation at the limit asks again for memory that becomes free by itself.
#include "runtime/memory/room_wait.hpp"

#include "tests/runtime/memory/memory_budget_test.hpp"
#include "tests/runtime/memory/room_wait_limit.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/memory_adaptor.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

namespace sluice::test {
namespace {

/// Counts how often the runtime makes room, and calls a function after each time.
class room_probe final : public memory_adaptor {
 public:
  struct seen {
    std::atomic<int> times{0};
    std::function<void()> then = [] {
    };
  };
  room_probe(std::unique_ptr<memory_resource> upstream, seen& s)
      : memory_adaptor(std::move(upstream), "room_probe"), seen_(s) {}
  std::size_t make_room() noexcept override {
    const auto room = memory_adaptor::make_room();
    ++seen_.times;
    seen_.then();
    return room;
  }
  std::string_view name() const noexcept override { return "room_probe"; }

 private:
  seen& seen_;
};

/// A limit of 4096 bytes. The longest wait is an hour: a test that waited for it would not end.
class room_wait_test : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    runtime_ = make_runtime(make_async_resource());
    stream_ = runtime_->create_stream();
  }
  void TearDown() override {
    stream_ = {};
    runtime_.reset();
  }
  std::unique_ptr<device_runtime> make_runtime(std::unique_ptr<memory_resource> below) {
    return std::make_unique<device_runtime>(
        device_, runtime_options{.resource = std::make_unique<room_probe>(
                                     make_budget_resource(std::move(below), budget_), seen_)});
  }
  [[nodiscard]] device_runtime& runtime() { return *runtime_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] room_probe::seen& seen() { return seen_; }
  [[nodiscard]] const std::shared_ptr<memory_budget>& budget() const { return budget_; }
  block_ref allocate(std::size_t bytes) { return runtime().allocate_bytes(bytes, stream()); }

 private:
  room_wait_limit hour_{std::chrono::hours(1)};
  room_probe::seen seen_;
  std::shared_ptr<device> device_ = open_device("host");
  std::shared_ptr<memory_budget> budget_ = std::make_shared<memory_budget>(4096);
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
};

// A client alone: what it has freed is charged until its stream has reached the free.
TEST_P(room_wait_test, waits_for_memory_that_a_stream_still_uses) {
  gate closed;
  auto first = allocate(2560);
  closed.hold(stream());
  runtime().record_use(first, stream(), access_kind::write);
  first = {};
  std::optional<block_ref> second;
  std::thread client([&] { second = allocate(3584); });
  await([&] { return seen().times >= 5; });
  EXPECT_EQ(budget()->snapshot().kept, 2560U);
  closed.open();
  client.join();
  EXPECT_EQ(second->bytes(), 3584U);
}

TEST_P(room_wait_test, never_refuses_a_client_alone) {
  for (int i = 0; i < 200; ++i) {
    for (const std::size_t bytes : {2560, 3584}) {
      ASSERT_NO_THROW((void)allocate(bytes)) << i;
    }
  }
}

TEST_P(room_wait_test, does_not_wait_for_memory_in_use) {
  const auto block = allocate(2560);
  EXPECT_TRUE(throws(errc::over_budget, "3584 bytes", [&] { (void)allocate(3584); }));
  EXPECT_LE(seen().times, 1);
}

TEST_P(room_wait_test, does_not_hold_up_threads_that_serve_others) {
  gate closed;
  auto first = allocate(2560);
  closed.hold(stream());
  runtime().record_use(first, stream(), access_kind::write);
  first = {};
  {
    const detail::no_room_wait_scope no_wait;
    EXPECT_TRUE(throws(errc::over_budget, "2560 have been freed", [&] { (void)allocate(3584); }));
  }
  closed.open();
  EXPECT_EQ(allocate(3584).bytes(), 3584U);
}

// Another client takes the room that has been made, and frees it, again and again.
TEST_P(room_wait_test, asks_again_if_another_client_took_the_room) {
  const auto other = make_runtime(make_pool_resource(make_async_resource()));
  const auto elsewhere = other->create_stream();
  const auto take_and_free = [&] {
    (void)other->allocate_bytes(2048, elsewhere);
    elsewhere.synchronize();
  };
  take_and_free();
  int thefts = 0;
  seen().then = [&] {
    if (thefts == 5) return;
    ++thefts;
    take_and_free();
  };
  {
    const detail::no_room_wait_scope no_wait;
    EXPECT_EQ(allocate(4096).bytes(), 4096U);
  }
  EXPECT_EQ(thefts, 5);
  seen().then = [] {
  };
}

INSTANTIATE_TEST_SUITE_P(devices, room_wait_test, ::testing::Values("host"), parameter_name);

}  // namespace
}  // namespace sluice::test
