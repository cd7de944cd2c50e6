// SPDX-License-Identifier: Apache-2.0
// Reservations: all of the memory or none, and the return of the rest.
#include "tests/runtime/memory/memory_budget_test.hpp"
#include "tests/support/use_state.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST_P(budget_on, reserves_for_all_or_for_none) {
  budget().set_limit(10'000);
  EXPECT_TRUE(throws(errc::over_budget, "a reservation", [&] {
    (void)reserve({5000, 4000, 2000});
  }));
  EXPECT_EQ(budget().snapshot().reserved, 0u);
  auto aside = reserve({4096, 4000, 0});
  EXPECT_EQ(aside.left(), 4096u + 4096);
  EXPECT_EQ(budget().snapshot().reserved, 8192u);
  EXPECT_EQ(budget().snapshot().held, 0u);
  // Other requests cannot use the reserved bytes.
  EXPECT_TRUE(throws(errc::over_budget, "reserved", [&] { (void)allocate(2048); }));
  const auto first = runtime().allocate<float>(1000, stream(), "first", aside);
  const auto second = runtime().allocate_bytes(4096, stream(), "second", aside);
  EXPECT_EQ(aside.left(), 0u);
  EXPECT_EQ(budget().snapshot().held, 8192u);
  EXPECT_TRUE(
      throws(errc::invalid_argument,
             "from: an allocation of 1 bytes takes 256 bytes, but the reservation has 0 left",
             [&] { (void)runtime().allocate_bytes(1, stream(), "third", aside); }));
}

TEST_P(budget_on, returns_what_was_reserved_and_not_used) {
  budget().set_limit(8192);
  (void)allocate(4096);  // the pool keeps it
  {
    auto aside = reserve({4096});
    const auto a = runtime().allocate_bytes(4096, stream(), "a", aside);
    EXPECT_EQ(aside.left(), 0u);
    EXPECT_EQ(budget().snapshot().held, 4096u) << "nothing new was needed";
    EXPECT_EQ(budget().snapshot().reserved, 0u) << "so it is anybody's again";
  }
  auto first = reserve({2048});
  auto second = std::move(first);
  EXPECT_EQ(first.left(), 0u);  // NOLINT(bugprone-use-after-move): it is empty
  EXPECT_EQ(second.left(), 2048u);
  second = reserve({1024});
  EXPECT_EQ(budget().snapshot().reserved, 1024u);
  second = {};
  EXPECT_EQ(budget().snapshot().reserved, 0u);
}

TEST_P(budget_on, a_reservation_survives_a_failed_allocation) {
  budget().set_limit(8192);
  auto aside = reserve({4096});
  faults().fail_nth(1, 100);
  EXPECT_TRUE(throws(errc::out_of_memory, "scripted",
                     [&] { (void)runtime().allocate_bytes(4096, stream(), "a", aside); }));
  faults().fail_nth(0, 0);
  EXPECT_EQ(aside.left(), 4096u);
  EXPECT_EQ(budget().snapshot().held, 0u);
  EXPECT_EQ(runtime().allocate_bytes(4096, stream(), "a", aside).bytes(), 4096u);
}

/// A pool over `budget`, or below it. It returns kept memory in either case.
std::unique_ptr<memory_resource> make_pooled(std::shared_ptr<memory_budget> budget,
                                             bool pool_on_top) {
  if (pool_on_top) {
    return make_pool_resource(make_budget_resource(make_async_resource(), std::move(budget)));
  }
  return make_budget_resource(make_pool_resource(make_async_resource()), std::move(budget));
}

// The kept memory has another size, so the reservation needs its bytes, not the block.
TEST_P(budget_on, reserves_what_pools_keep) {
  for (const bool pool_on_top : {false, true}) {
    SCOPED_TRACE(pool_on_top ? "pool over budget" : "budget over pool");
    const auto tight = std::make_shared<memory_budget>(8192);
    device_runtime pooled(runtime().shared_device(), {.resource = make_pooled(tight, pool_on_top)});
    const auto stream = pooled.create_stream();
    const auto live = pooled.allocate_bytes(1024, stream, "live");
    (void)pooled.allocate_bytes(6144, stream, "kept");
    stream.synchronize();  // until then unused memory waits for its own allocation
    EXPECT_EQ(tight->snapshot().held, 7168u) << "the pool does not keep it";
    auto aside = pooled.reserve_memory(std::vector<std::size_t>{4096, 2048});
    EXPECT_EQ(aside.left(), 6144u);
    EXPECT_EQ(tight->snapshot().reserved, 6144u);
    EXPECT_EQ(tight->snapshot().held, 1024u);
    const auto a = pooled.allocate_bytes(4096, stream, "a", aside);
    const auto b = pooled.allocate_bytes(2048, stream, "b", aside);
    EXPECT_EQ(aside.left(), 0u);
    EXPECT_EQ(tight->snapshot().held, 7168u);
  }
}

TEST_P(budget_on, refuses_to_reserve_more_than_all_that_pools_keep) {
  for (const bool pool_on_top : {false, true}) {
    SCOPED_TRACE(pool_on_top ? "pool over budget" : "budget over pool");
    const auto tight = std::make_shared<memory_budget>(8192);
    device_runtime pooled(runtime().shared_device(), {.resource = make_pooled(tight, pool_on_top)});
    const auto stream = pooled.create_stream();
    const auto live = upload(pooled, stream, std::vector<float>(1024, 3));
    (void)pooled.allocate_bytes(2048, stream, "kept");
    const auto uses = uses_of(live).version;
    const auto before = pooled.statistics();
    EXPECT_TRUE(
        throws(errc::over_budget,
               "5120 bytes for a reservation would exceed the memory budget of 8192 bytes: 6144 "
               "are held, of which",
               [&] {
                 (void)pooled.reserve_memory(std::vector<std::size_t>{4096, 1024});
               }));
    EXPECT_EQ(tight->snapshot().held, 6144u) << "what cannot be met takes nothing from the pool";
    EXPECT_EQ(tight->snapshot().reserved, 0u);
    const auto after = pooled.statistics();
    EXPECT_EQ(after.bytes_outstanding, before.bytes_outstanding);
    EXPECT_EQ(after.blocks, before.blocks);
    EXPECT_EQ(after.references, before.references);
    EXPECT_EQ(after.points, before.points);
    EXPECT_EQ(after.launches, before.launches);
    EXPECT_EQ(uses_of(live).version, uses);
    EXPECT_EQ(download(live, stream), std::vector<float>(1024, 3));
    // The rest is available.
    EXPECT_EQ(pooled.reserve_memory(std::vector<std::size_t>{4096}).left(), 4096u);
  }
}

TEST_P(budget_on, refuses_an_empty_reservation) {
  budget().set_limit(8192);
  auto aside = reserve({4096});
  const auto moved = std::move(aside);
  EXPECT_TRUE(throws(errc::invalid_argument, "from: the reservation is empty", [&] {
    // NOLINTNEXTLINE(bugprone-use-after-move): the test needs it
    (void)runtime().allocate_bytes(1024, stream(), "a", aside);
  }));
}

TEST_P(budget_on, refuses_a_reservation_of_another_budget) {
  const auto other = std::make_shared<memory_budget>();
  memory_reservation foreign(other, 4096);
  EXPECT_TRUE(throws(errc::invalid_argument, "from: the reservation belongs to another budget",
                     [&] { (void)runtime().allocate_bytes(10, stream(), "a", foreign); }));
  EXPECT_EQ(foreign.left(), 4096u);
  const std::vector<std::size_t> too_many{~std::size_t{0} / 2, ~std::size_t{0} / 2, 4096};
  EXPECT_TRUE(throws(errc::invalid_argument, "overflows", [&] { (void)reserve(too_many); }));
}

TEST_P(budget_on, gives_racing_reservations_what_there_is_and_no_more) {
  constexpr int threads = 4;
  budget().set_limit(3 * 1024);
  for (int round = 0; round < 50; ++round) {
    std::latch start(threads);
    std::vector<memory_reservation> got(threads);
    std::vector<std::thread> clients;
    for (auto& mine : got) {
      clients.emplace_back([&] {
        start.arrive_and_wait();
        try {
          mine = reserve({1024});
        } catch (const error& e) {
          EXPECT_EQ(e.code(), errc::over_budget);
        }
      });
    }
    for (auto& client : clients) client.join();
    std::size_t sum = 0;
    for (const auto& mine : got) sum += mine.left();
    ASSERT_EQ(sum, 3u * 1024);
  }
}

}  // namespace
}  // namespace sluice::test
