// SPDX-License-Identifier: Apache-2.0
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/memory_adaptors.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

class memory_adaptors : public ::testing::Test {
 protected:
  memory_adaptors()
      : runtime_(open_host_device(),
                 {.resource = make_statistics_resource(
                      make_failing_resource(make_async_resource(), faults_), statistics_)}),
        stream_(runtime_.create_stream()) {}

  [[nodiscard]] block_ref allocate(std::size_t bytes) {
    return runtime_.allocate_bytes(bytes, stream_, "adapted");
  }

  std::shared_ptr<memory_statistics> statistics_ = std::make_shared<memory_statistics>();
  std::shared_ptr<fault_countdown> faults_ = std::make_shared<fault_countdown>();
  device_runtime runtime_;
  sluice::stream stream_;
};

TEST_F(memory_adaptors, count_bytes_and_allocations) {
  auto a = allocate(1000);
  auto b = allocate(24);
  EXPECT_EQ(statistics_->counters(), (memory_counters{{1024, 1024, 1024}, {2, 2, 2}}));
  a = {};
  EXPECT_EQ(statistics_->counters(), (memory_counters{{24, 1024, 1024}, {1, 2, 2}}));
  auto c = allocate(100);
  EXPECT_EQ(statistics_->counters(), (memory_counters{{124, 1024, 1124}, {2, 2, 3}}));
  b = {};
  c = {};
  EXPECT_EQ(statistics_->counters(), (memory_counters{{0, 1024, 1124}, {0, 2, 3}}));
  // A request without bytes does not reach the resource.
  (void)allocate(0);
  EXPECT_EQ(statistics_->counters().allocations.total, 3u);
}

TEST_F(memory_adaptors, count_anew_in_scopes) {
  auto before = allocate(500);
  {
    const memory_statistics::scope outer(*statistics_);
    EXPECT_EQ(outer.changes(), memory_changes{});
    auto a = allocate(100);
    {
      const memory_statistics::scope inner(*statistics_);
      auto b = allocate(10);
      EXPECT_EQ(inner.changes().bytes, (memory_change{10, 10, 10}));
      a = {};  // it was allocated before this scope
      EXPECT_EQ(inner.changes().bytes, (memory_change{-90, 10, 10}));
      EXPECT_EQ(inner.changes().allocations, (memory_change{0, 1, 1}));
      EXPECT_EQ(outer.changes().bytes, (memory_change{10, 110, 110}));
    }
    EXPECT_EQ(outer.changes().allocations, (memory_change{0, 2, 2}));
    before = {};
    EXPECT_EQ(outer.changes().bytes, (memory_change{-500, 110, 110}));
    EXPECT_EQ(outer.changes().allocations, (memory_change{-1, 2, 2}));
  }
  EXPECT_EQ(statistics_->counters().bytes, (memory_counter{0, 610, 610}));
}

// Frees of earlier memory do not hide a leak, and a leak does not hide these frees.
TEST_F(memory_adaptors, a_scope_that_begins_with_a_free_counts_what_is_left_behind) {
  auto before = allocate(500);
  const memory_statistics::scope all(*statistics_);
  before = {};
  EXPECT_EQ(all.changes().bytes, (memory_change{-500, 0, 0})) << "a peak is not below 0";
  const auto left = allocate(100);
  EXPECT_EQ(all.changes().bytes, (memory_change{-400, 0, 100}));
  EXPECT_EQ(all.changes().allocations, (memory_change{0, 0, 1}));
  const auto more = allocate(450);
  EXPECT_EQ(all.changes().bytes, (memory_change{50, 50, 550}));
}

TEST_F(memory_adaptors, scopes_end_in_any_order) {
  auto first = std::make_unique<memory_statistics::scope>(*statistics_);
  auto a = allocate(100);
  auto second = std::make_unique<memory_statistics::scope>(*statistics_);
  auto b = allocate(10);
  first.reset();
  auto c = allocate(1);
  EXPECT_EQ(second->changes().bytes, (memory_change{11, 11, 11}));
  first = std::make_unique<memory_statistics::scope>(*statistics_);
  b = {};
  EXPECT_EQ(first->changes().bytes, (memory_change{-10, 0, 0}));
  second.reset();
  c = {};
  EXPECT_EQ(first->changes().bytes, (memory_change{-11, 0, 0}));
  EXPECT_EQ(first->changes().allocations, (memory_change{-2, 0, 0}));
}

TEST_F(memory_adaptors, scopes_count_for_all_threads_at_a_time) {
  constexpr int threads = 4;
  constexpr std::size_t each = 300;
  const memory_statistics::scope whole(*statistics_);
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (std::size_t i = 0; i < each; ++i) {
        const memory_statistics::scope scope(*statistics_);
        const auto block = allocate(8);
        // The scope counts its own allocations and those of other threads meanwhile.
        const auto seen = scope.changes().allocations;
        EXPECT_GE(seen.total, 1u);
        EXPECT_LE(seen.peak, seen.total);
        EXPECT_LE(seen.current, static_cast<std::ptrdiff_t>(seen.peak));
        EXPECT_GE(seen.current, 2 - threads) << "no more than what the others had before";
      }
    });
  }
  for (auto& thread : all) thread.join();
  const auto counted = whole.changes();
  EXPECT_EQ(counted.bytes.current, 0);
  EXPECT_EQ(counted.bytes.total, 8 * threads * each);
  EXPECT_EQ(counted.allocations.current, 0);
  EXPECT_LE(counted.allocations.peak, std::size_t{threads});
}

TEST_F(memory_adaptors, fail_as_they_are_told) {
  faults_->fail_nth(2, 2);
  const auto a = allocate(10);
  EXPECT_TRUE(throws(errc::out_of_memory, "scripted failure to allocate 20 bytes for 'adapted'",
                     [&] { (void)allocate(20); }));
  EXPECT_NO_THROW((void)allocate(30));
  // The runtime retries after one failure.
  faults_->fail_nth(1);
  EXPECT_NO_THROW((void)allocate(40));
  faults_->fail_nth(1, 2);
  faults_->fail_nth(0);
  EXPECT_NO_THROW((void)allocate(50));
  EXPECT_EQ(statistics_->counters().allocations.total, 4u) << "what failed was not granted";
}

TEST_F(memory_adaptors, count_for_threads_at_a_time) {
  constexpr int threads = 4;
  constexpr int each = 500;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (int i = 0; i < each; ++i) (void)allocate(8);
    });
  }
  for (auto& thread : all) thread.join();
  const auto counted = statistics_->counters();
  EXPECT_EQ(counted.bytes.current, 0u);
  EXPECT_EQ(counted.bytes.total, std::size_t{8} * threads * each);
  EXPECT_LE(counted.allocations.peak, std::size_t{threads});
}

TEST(fault_countdown, strikes_where_it_should) {
  auto generator = make_generator();
  for (int round = 0; round < 200; ++round) {
    const auto nth = generator() % 20;
    const auto count = 1 + generator() % 5;
    fault_countdown faults;
    faults.fail_nth(nth, count);
    for (std::uint64_t operation = 1; operation < 40; ++operation) {
      EXPECT_EQ(faults.strikes(), nth != 0 && operation >= nth && operation < nth + count);
    }
  }
}

TEST(memory_adaptors_of_nothing, are_refused) {
  EXPECT_TRUE(throws(
      errc::invalid_argument, "make_statistics_resource: upstream must not be null",
      [] { (void)make_statistics_resource(nullptr, std::make_shared<memory_statistics>()); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "statistics must not be null",
                     [] { (void)make_statistics_resource(make_async_resource(), nullptr); }));
  EXPECT_TRUE(
      throws(errc::invalid_argument, "make_failing_resource: upstream must not be null",
             [] { (void)make_failing_resource(nullptr, std::make_shared<fault_countdown>()); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "faults must not be null",
                     [] { (void)make_failing_resource(make_async_resource(), nullptr); }));
}

}  // namespace
}  // namespace sluice::test
