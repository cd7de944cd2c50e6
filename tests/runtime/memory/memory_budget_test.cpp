// SPDX-License-Identifier: Apache-2.0
// The budget: charges, tags, and refusals at the limit.
#include "tests/runtime/memory/memory_budget_test.hpp"

#include "tests/support/seed.hpp"

#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

INSTANTIATE_TEST_SUITE_P(devices, budget_on, every_device(), parameter_name);

TEST_P(budget_on, charges_what_is_taken_from_the_device_and_live_blocks_to_their_tags) {
  const auto a = allocate(4096, "a");
  auto b = allocate(1000, "b");
  auto c = allocate(1, "a");
  auto s = budget().snapshot();
  EXPECT_EQ(s.held, 4096u + 1024 + 256);
  EXPECT_EQ(s.kept, 0u);
  EXPECT_EQ(s.limit, memory_budget::unlimited);
  ASSERT_EQ(s.tags.size(), 2u);
  EXPECT_EQ(s.tags[0].tag, "a");
  EXPECT_EQ(s.tags[0].bytes, 4352u);
  EXPECT_EQ(s.tags[0].blocks, 2u);
  EXPECT_EQ(s.tags[1].tag, "b");
  b = {};
  c = {};
  stream().synchronize();
  s = budget().snapshot();
  EXPECT_EQ(s.held, 4096u + 1024 + 256) << "the pool has it still";
  EXPECT_EQ(s.kept, 1024u + 256);
  ASSERT_EQ(s.tags.size(), 1u);
  EXPECT_EQ(s.tags[0].bytes, 4096u);
  EXPECT_EQ(runtime().trim_memory(), 1024u + 256);
  s = budget().snapshot();
  EXPECT_EQ(s.held, 4096u);
  EXPECT_EQ(s.peak, 4096u + 1024 + 256);
}

TEST_P(budget_on, says_at_the_limit_who_holds_what) {
  budget().set_limit(10'000);
  const auto a = allocate(6144, "weights");
  const auto b = allocate(2048, "scratch");
  auto aside = reserve({1000});
  EXPECT_TRUE(
      throws(errc::over_budget,
             "2048 bytes for 'batch' would exceed the memory budget of 10000 bytes: 8192 are "
             "held, of which 0 have been freed and await release, and 1024 are reserved; "
             "'weights' has 6144; 'scratch' has 2048",
             [&] { (void)allocate(2048, "batch"); }));
  EXPECT_TRUE(is_retryable(errc::over_budget));
  EXPECT_EQ(runtime().statistics().blocks, 2u);
  aside.release();
  EXPECT_EQ(allocate(1792, "batch").bytes(), 1792u);
}

TEST_P(budget_on, obeys_a_limit_that_changes) {
  auto a = allocate(4096);
  budget().set_limit(1000);
  EXPECT_TRUE(throws(errc::over_budget, "4096 are held", [&] { (void)allocate(256); }));
  a = {};
  stream().synchronize();
  EXPECT_EQ(allocate(256).bytes(), 256u);
  budget().set_limit(memory_budget::unlimited);
  EXPECT_EQ(allocate(4096).bytes(), 4096u);
}

TEST_P(budget_on, counts_for_the_peak_what_was_had) {
  (void)allocate(4096);
  EXPECT_TRUE(throws(errc::out_of_memory, "", [&] { (void)allocate(std::size_t{1} << 60); }));
  EXPECT_EQ(budget().snapshot().peak, 4096u);
}

TEST_P(budget_on, holds_against_threads) {
  constexpr int threads = 4;
  constexpr std::size_t limit = 16'384;
  budget().set_limit(limit);
  const auto seed = make_generator()();
  std::atomic<int> granted{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> clients;
  for (int t = 0; t < threads; ++t) {
    clients.emplace_back([&, t] {
      std::mt19937_64 random(seed + static_cast<std::uint64_t>(t));
      const auto thread_stream = runtime().create_stream();
      std::vector<block_ref> blocks;
      for (int i = 0; i < 400; ++i) {
        try {
          if (random() % 4 == 0) {
            auto aside = runtime().reserve_memory(std::vector<std::size_t>{2048, 1024});
            blocks.push_back(runtime().allocate_bytes(2048, thread_stream, "reserved", aside));
          } else {
            blocks.push_back(
                runtime().allocate_bytes(256 + random() % 4096, thread_stream, "free"));
          }
          ++granted;
        } catch (const error& e) {
          if (e.code() != errc::over_budget) throw;
          ++refused;
          blocks.clear();
        }
        if (random() % 3 == 0) blocks.clear();
      }
      thread_stream.synchronize();
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_GT(granted, 0);
  EXPECT_GT(refused, 0);
  EXPECT_LE(budget().snapshot().peak, limit);
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
}

TEST_P(budget_on, of_a_device_is_shared_by_its_runtimes) {
  const auto shared = memory_budget::of(runtime().device().id());
  EXPECT_EQ(shared, memory_budget::of(runtime().device().id()));
  EXPECT_NE(shared, memory_budget::of(device_id{device_kind::host, 999}));
  const auto before = shared->snapshot().held;
  device_runtime one(runtime().shared_device());
  device_runtime two(runtime().shared_device());
  const auto on_one = one.create_stream();
  const auto on_two = two.create_stream();
  const auto a = one.allocate_bytes(1024, on_one);
  const auto b = two.allocate_bytes(2048, on_two);
  EXPECT_EQ(shared->snapshot().held - before, 3072u);
}

TEST_P(budget_on, may_stand_under_another_one) {
  const auto inner = std::make_shared<memory_budget>(4096);
  const auto outer = std::make_shared<memory_budget>(8192);
  device_runtime nested(runtime().shared_device(),
                        {.resource = make_budget_resource(
                             make_budget_resource(make_async_resource(), inner), outer)});
  const auto stream = nested.create_stream();
  const auto a = nested.allocate_bytes(4096, stream);
  EXPECT_EQ(inner->snapshot().held, 4096u);
  EXPECT_EQ(outer->snapshot().held, 4096u);
  EXPECT_TRUE(throws(errc::over_budget, "budget of 4096",
                     [&] { (void)nested.allocate_bytes(256, stream); }));
  outer->set_limit(1024);
  inner->set_limit(memory_budget::unlimited);
  EXPECT_TRUE(throws(errc::over_budget, "budget of 1024",
                     [&] { (void)nested.allocate_bytes(256, stream); }));
  EXPECT_EQ(inner->snapshot().held, 4096u);
}

TEST_P(budget_on, under_another_one_takes_part_in_what_that_does) {
  const auto inner = std::make_shared<memory_budget>(8192);
  const auto outer = std::make_shared<memory_budget>(8192);
  const auto make = [&](std::shared_ptr<memory_budget> above) {
    return std::make_unique<device_runtime>(
        runtime().shared_device(),
        runtime_options{.resource = make_budget_resource(
                            make_budget_resource(make_pool_resource(make_async_resource()), inner),
                            std::move(above))});
  };
  const auto one = make(outer);
  const auto two = make(std::make_shared<memory_budget>());
  const auto on_one = one->create_stream();
  const auto on_two = two->create_stream();
  {
    auto aside = one->reserve_memory(std::vector<std::size_t>{4096});
    const auto a = one->allocate_bytes(4096, on_one, "reserved", aside);
    EXPECT_EQ(aside.left(), 0u);
    EXPECT_EQ(inner->snapshot().held, 4096u);
    EXPECT_EQ(outer->snapshot().held, 4096u);
  }
  on_one.synchronize();
  // Through the shared budget, memory in one runtime's pool makes room for the other one.
  EXPECT_EQ(two->allocate_bytes(8192, on_two).bytes(), 8192u);
}

// A pool reuses memory under a tag other than the one it was taken for.
TEST_P(budget_on, under_a_pool_counts_what_the_pool_took) {
  const auto inner = std::make_shared<memory_budget>();
  device_runtime pooled(
      runtime().shared_device(),
      {.resource = make_pool_resource(make_budget_resource(make_async_resource(), inner))});
  const auto stream = pooled.create_stream();
  const void* const address = pooled.allocate_bytes(4096, stream, "first").address();
  const auto second = pooled.allocate_bytes(4096, stream, "second");
  EXPECT_EQ(second.address(), address);
  ASSERT_EQ(inner->snapshot().tags.size(), 1u);
  EXPECT_EQ(inner->snapshot().tags[0].tag, "first");
  pooled.deallocate(second);
  stream.synchronize();
  EXPECT_EQ(pooled.trim_memory(), 4096u);
  EXPECT_TRUE(inner->snapshot().tags.empty());
}

TEST(memory_budget, of_a_lost_device_is_free_again) {
  const auto budget = std::make_shared<memory_budget>(4096);
  block_ref outlives;
  {
    device_runtime runtime(
        open_host_device(),
        {.resource = make_budget_resource(make_pool_resource(make_async_resource()), budget)});
    const auto stream = runtime.create_stream();
    outlives = runtime.allocate_bytes(2048, stream);
    (void)runtime.allocate_bytes(1024, stream);
    runtime.device().lose(error(errc::device_lost, "for this test"));
    EXPECT_EQ(budget->snapshot().held, 3072u);
  }
  EXPECT_EQ(budget->snapshot().held, 0u);
  EXPECT_TRUE(budget->snapshot().tags.empty());
  EXPECT_EQ(memory_reservation(budget, 4096).left(), 4096u) << "something is charged still";
}

TEST(memory_budget, needs_something_to_limit) {
  EXPECT_TRUE(throws(errc::invalid_argument, "upstream", [] { (void)make_budget_resource({}); }));
}

}  // namespace
}  // namespace sluice::test
