// SPDX-License-Identifier: Apache-2.0
// The limit of pinned memory, and the thread that frees it.
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/pinning_gpu.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/transfer_launches.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

std::shared_ptr<host_transfer> prepare(stream_ref stream, std::size_t bytes) {
  return host_transfer::download(stream, std::make_shared<std::byte>(),
                                 bytes);  // the test never enqueues it
}

std::thread::id reclaim_thread(const side& s) {
  std::atomic<std::thread::id> seen{};
  detail::runtime_core::of(*s.runtime)
      ->reclaim_after(
          {}, {},
          [](void* context, allocation) noexcept {
            static_cast<std::atomic<std::thread::id>*>(context)->store(std::this_thread::get_id());
          },
          &seen);
  await([&] { return seen.load() != std::thread::id(); });
  return seen;
}

TEST(pinned_memory, grows_on_demand_and_is_kept_for_the_next_transfer) {
  const auto device = std::make_shared<pinning_gpu>();
  const side gpu(device);
  EXPECT_EQ(device->pinned(), 0U);
  (void)prepare(gpu.stream, 100);
  EXPECT_EQ(device->pinned(), host_transfer::max_at_once);
  (void)prepare(gpu.stream, 100);
  EXPECT_EQ(device->pinned(), host_transfer::max_at_once);
  (void)prepare(gpu.stream, 3 * mebi);
  const auto both = device->pinned();
  for (int i = 0; i < 3; ++i) (void)prepare(gpu.other, 50 * mebi);
  EXPECT_EQ(device->pinned(), both);
  EXPECT_EQ(gpu.runtime->statistics().pinned_bytes, both);
}

TEST(pinned_memory, is_freed_by_the_reclaim_thread) {
  const auto device = std::make_shared<pinning_gpu>();
  {
    const side gpu(device);
    (void)prepare(gpu.stream, 100);
    {
      // Exceeds the memory that is kept: the ring for a transfer of 1.6 GiB has 4 slots of 26 MiB.
      const auto large = prepare(gpu.stream, 1600 * mebi);
      EXPECT_GT(device->pinned(), detail::pinned_pool::max_kept);
    }
    await([&] { return device->pinned() == host_transfer::max_at_once; });
    EXPECT_EQ(device->freed_by(), std::set{reclaim_thread(gpu)});
    EXPECT_EQ(gpu.runtime->trim_memory(), 0U);
    await([&] { return device->pinned() == 0; });
    EXPECT_EQ(device->freed_by(), std::set{reclaim_thread(gpu)});
    (void)prepare(gpu.stream, 100);
  }
  EXPECT_EQ(device->pinned(), 0U);
}

TEST(pinned_memory, never_exceeds_its_limit) {
  constexpr auto limit = 2 * mebi;
  const auto device = std::make_shared<pinning_gpu>();
  const side gpu(device, {.pinned_limit = limit});
  {
    // The pool grants fewer slots, then smaller ones.
    const auto one_slot = prepare(gpu.stream, 2 * mebi);
    const auto small_slot = prepare(gpu.other, 2 * mebi);
    const auto third = gpu.runtime->create_stream();
    EXPECT_TRUE(throws(errc::over_budget, "runtime_options::pinned_limit",
                       [&] { (void)prepare(third, 100 * mebi); }));
    // When no piece is left, small transfers share the ring of their stream.
    std::vector<std::shared_ptr<host_transfer>> small;
    for (int i = 0; i < 100; ++i) small.push_back(prepare(third, host_transfer::max_at_once));
    EXPECT_LE(device->peak(), limit);
  }
  // Kept memory makes room.
  await([&] {
    try {
      (void)prepare(gpu.stream, 100 * mebi);
      return true;
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::over_budget);
      EXPECT_NE(std::string(e.what()).find("await release"), std::string::npos);
      return false;
    }
  });
  EXPECT_LE(device->peak(), limit);
}

TEST(pinned_memory, is_left_alone_by_a_request_that_it_can_never_meet) {
  const auto device = std::make_shared<pinning_gpu>();
  const side gpu(device, {.pinned_limit = 8 * mebi});
  (void)prepare(gpu.stream, 3 * mebi);
  const auto kept = device->pinned();
  EXPECT_TRUE(throws(errc::over_budget, "", [&] { (void)prepare(gpu.stream, 4096 * mebi); }));
  detail::runtime_core::of(*gpu.runtime)->finish_reclaiming();
  EXPECT_EQ(device->pinned(), kept);
}

// Transfers are correct even if the limit is too small for the usual number of slots.
TEST(pinned_memory, of_one_small_slot_moves_everything) {
  auto random = make_generator();
  const auto device = std::make_shared<pinning_gpu>();
  const side gpu(device, {.pinned_limit = std::size_t{256} << 10U});
  const auto target = gpu.allocate(9 * mebi / sizeof(std::uint32_t) + 1);
  const auto sent = random_values<std::uint32_t>(random, target.size());
  std::vector<moving> movements;
  for (int i = 0; i < 3; ++i) {
    movements.push_back(start_upload(target, sent, gpu.stream));
    movements.push_back(start_download(target, gpu.stream));
  }
  for (std::size_t i = 1; i < movements.size(); i += 2) {
    EXPECT_TRUE(finish(gpu, movements[i]) == sent);
  }
  EXPECT_LE(device->peak(), std::size_t{256} << 10U);
}

}  // namespace
}  // namespace sluice::test
