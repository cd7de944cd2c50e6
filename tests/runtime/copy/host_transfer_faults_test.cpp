// SPDX-License-Identifier: Apache-2.0
// Transfers with faults: streams pass everything that was enqueued, and nothing stays.
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/pinning_gpu.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/transfer_launches.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr std::size_t count = 10 * mebi / sizeof(std::uint32_t) + 3;

error planted() {
  return {errc::library_failure, "for this test"};
}

// Every command of an upload and of a download fails once.
TEST(host_transfer_faults, a_stream_passes_a_transfer_that_was_enqueued_in_part) {
  const auto device = std::make_shared<pinning_gpu>();
  const side gpu(device);
  const auto target = gpu.holding(values(count, 1));
  for (int nth = 1; nth <= 11; ++nth) {
    SCOPED_TRACE(nth);
    gate closed;
    closed.hold(gpu.stream);
    const auto before = start_upload(target, values(count, 2), gpu.stream);
    const auto read_before = start_download(target, gpu.stream);
    device->fail_copy(nth);
    const auto failed = nth % 2 == 0 ? start_upload(target, values(count, 3), gpu.stream)
                                     : start_download(target, gpu.stream);
    ASSERT_TRUE(failed.failure);
    EXPECT_EQ(failed.failure->code(), errc::library_failure);
    const auto after = start_upload(target, values(count, 4), gpu.stream);
    EXPECT_FALSE(after.failure);
    closed.open();
    EXPECT_EQ(finish(gpu, read_before), values(count, 2));
    EXPECT_TRUE(gpu.failure_of((finish(gpu, failed), failed.point)));
    EXPECT_EQ(finish(gpu, start_download(target, gpu.stream)), values(count, 4));
    EXPECT_EQ(gpu.runtime->statistics().leases, 0U);
  }
}

// The end of the runtime waits for launches between preflight and commit, so it also serves their
// transfers.
TEST(host_transfer_faults, a_stream_passes_a_transfer_that_is_enqueued_while_its_runtime_ends) {
  side gpu(std::make_shared<pinning_gpu>());
  const auto core = detail::runtime_core::of(*gpu.runtime);
  const auto target = gpu.allocate(count);
  const auto source = std::make_shared<values>(count, 5);
  const auto moved = host_transfer::upload(gpu.stream, {source, source->data()}, target.bytes());
  auto recorder = begin_write(target, gpu.stream);
  auto* const address = target.data();
  std::thread ending([&] { gpu.runtime.reset(); });
  await([&] { return target.stale(); });
  moved->enqueue(address);
  const auto point = recorder.commit();
  ending.join();
  core->wait_until_complete(point);  // the transfer must exist until then
  EXPECT_TRUE(core->settled(point));
  EXPECT_FALSE(core->device().lost());
}

// The owner of the memory is foreign code, so it must not delay the staging thread.
TEST(host_transfer_faults, the_owner_of_the_memory_is_destroyed_by_the_reclaim_thread) {
  const side gpu(std::make_shared<pinning_gpu>());
  const auto target = gpu.allocate(count);
  values source(count, 5);
  std::atomic<bool> reclaimed{false};
  std::atomic<bool> destroyed{false};
  auto owner = std::shared_ptr<const void>(source.data(), [&](const void*) {
    reclaimed = detail::runtime_core::of(*gpu.runtime)->reclaims_here();
    destroyed = true;
  });
  moving movement;
  movement.transfer = host_transfer::upload(gpu.stream, std::move(owner), target.bytes());
  movement = launch(std::move(movement), target, access_kind::write, gpu.stream);
  await([&] { return destroyed.load(); });
  EXPECT_TRUE(reclaimed);
  gpu.stream.synchronize();
}

// A transfer prepared before the failure has a ring that accepts no more transfers.
TEST(host_transfer_faults, a_transfer_prepared_before_a_failure_is_refused) {
  const auto device = std::make_shared<pinning_gpu>();
  const side gpu(device);
  const auto target = gpu.allocate(count);
  const auto source = std::make_shared<values>(count, 5);
  const auto prepared = host_transfer::upload(gpu.stream, {source, source->data()}, target.bytes());
  device->fail_copy(1);
  const auto failed = start_upload(target, *source, gpu.stream);
  EXPECT_TRUE(failed.failure);
  EXPECT_TRUE(
      throws(errc::library_failure, "earlier transfer", [&] { prepared->enqueue(target.data()); }));
  gpu.stream.synchronize();
}

// Queued work continues after the loss, as on a GPU that was given up. It ends only if every word
// that it waits for is set.
TEST(host_transfer_faults, a_lost_device_comes_to_rest) {
  auto random = make_generator();
  for (int round = 0; round < 20; ++round) {
    const auto real = open_host_device();
    const auto device = std::make_shared<pinning_gpu>(real);
    std::vector<moving> movements;
    std::vector<std::weak_ptr<values>> memory;
    {
      const side gpu(device);
      const auto target = gpu.holding(values(count, 1));
      gate closed;
      if (round % 2 == 0) closed.hold(gpu.stream);
      for (int i = 0; i < 3; ++i) {
        movements.push_back(start_upload(target, values(count, 2), gpu.stream));
        movements.push_back(start_download(target, gpu.stream));
      }
      for (auto spins = random() % 100'000; spins != 0; --spins) {
        if (device->lost()) break;
      }
      device->lose(planted());
      EXPECT_TRUE(throws(errc::device_lost, "for this test",
                         [&] { (void)start_upload(target, values(count, 2), gpu.stream); }));
      closed.open();
      real->synchronize(gpu.stream.ref().native());
      for (auto& m : movements) memory.emplace_back(m.memory);
      movements.clear();
    }
    // The staging thread has released its objects.
    for (const auto& m : memory) EXPECT_TRUE(m.expired());
  }
}

TEST(host_transfer_faults, a_runtime_ends_with_transfers_that_cannot_end) {
  const auto real = open_host_device();
  const auto device = std::make_shared<pinning_gpu>(real);
  gate closed;
  std::vector<moving> movements;
  {
    const side gpu(device, {.drain_timeout = std::chrono::milliseconds(20)});
    const auto target = gpu.holding(values(count, 1));
    closed.hold(gpu.stream);
    movements.push_back(start_upload(target, values(count, 2), gpu.stream));
    movements.push_back(start_download(target, gpu.stream));
  }
  EXPECT_TRUE(device->lost());
  closed.open();
  movements.clear();
}

TEST(host_transfer_faults, a_retired_stream_takes_none) {
  const auto device = std::make_shared<pinning_gpu>();
  side gpu(device);
  for (const auto bytes : {std::size_t{100}, 3 * mebi}) {
    SCOPED_TRACE(bytes);
    auto stream = gpu.runtime->create_stream();
    const auto ref = stream.ref();
    const auto source = std::make_shared<std::vector<std::byte>>(bytes);
    const auto prepared = host_transfer::upload(ref, {source, source->data()}, bytes);
    stream = {};
    EXPECT_TRUE(throws(errc::stream_misuse, "stream has been destroyed",
                       [&] { prepared->enqueue(nullptr); }));
  }
}

TEST(host_transfer_faults, a_gpu_without_stream_memory_operations_takes_small_ones_only) {
  class old_gpu final : public pinning_gpu {
   public:
    bool supports_words() const noexcept override { return false; }
  };
  const side gpu(std::make_shared<old_gpu>());
  const auto small = gpu.allocate(host_transfer::max_at_once / sizeof(std::uint32_t));
  const auto up = start_upload(small, values(small.size(), 6), gpu.stream);
  EXPECT_EQ(finish(gpu, start_download(small, gpu.stream)), values(small.size(), 6));
  const auto before = gpu.runtime->statistics().launches;
  const auto large = gpu.holding(values(small.size() + 1, 1));
  const auto launches = gpu.runtime->statistics().launches;
  EXPECT_TRUE(throws(errc::unsupported, "stream memory operations",
                     [&] { (void)start_upload(large, values(large.size(), 2), gpu.stream); }));
  EXPECT_GT(launches, before);
  EXPECT_EQ(gpu.runtime->statistics().launches, launches);
  EXPECT_EQ(download(large, gpu.stream), values(large.size(), 1));
}

}  // namespace
}  // namespace sluice::test
