// SPDX-License-Identifier: Apache-2.0
// Transfers as launches: every byte arrives, in order, as part of one launch, and other streams do
// not wait.
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/pinning_gpu.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/transfer_launches.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

constexpr std::size_t words_of(std::size_t bytes) {
  return bytes / sizeof(std::uint32_t);
}

class host_transfers : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() != "pretended:0" && !has_device(GetParam())) {
      GTEST_SKIP() << "this machine has no device '" << GetParam() << "'";
    }
    side_.emplace(GetParam());
  }
  [[nodiscard]] const side& device_side() const { return *side_; }
  [[nodiscard]] values draw(std::size_t count) {
    return random_values<std::uint32_t>(random_, count);
  }

  std::mt19937_64 random_ = make_generator();

 private:
  std::optional<side> side_;
};
INSTANTIATE_TEST_SUITE_P(devices, host_transfers, ::testing::Values("host", "pretended:0", "cuda"),
                         [](const auto& p) { return p.param.substr(0, p.param.find(':')); });

TEST_P(host_transfers, move_every_byte_whatever_the_size) {
  constexpr auto small = words_of(host_transfer::max_at_once);
  std::vector<std::size_t> counts{0,
                                  1,
                                  small,
                                  small + 1,
                                  words_of(mebi) - 1,
                                  words_of(mebi),
                                  words_of(mebi) + 1,
                                  words_of(4 * mebi),
                                  words_of(64 * mebi) + 1};  // more than 64 slots of 1 MiB
  for (int i = 0; i < 8; ++i) counts.push_back(1 + random_() % words_of(9 * mebi));
  for (const auto count : counts) {
    SCOPED_TRACE(count);
    const auto all = device_side().allocate(count + 5);
    const auto part = all.subspan(3, count);
    const auto sent = draw(count);
    const auto up = start_upload(part, sent, device_side().stream);
    const auto down = start_download(part, device_side().other);
    EXPECT_TRUE(finish(device_side(), down) == sent);
    EXPECT_LE(up.transfer->commands(), 193U);
  }
}

TEST_P(host_transfers, are_one_launch_each) {
  const auto target = device_side().allocate(words_of(5 * mebi));
  const auto before = device_side().runtime->statistics().launches;
  const auto up = start_upload(target, values(target.size(), 1), device_side().stream);
  const auto down = start_download(target, device_side().stream);
  EXPECT_EQ(device_side().runtime->statistics().launches, before + 2);
  (void)finish(device_side(), down);
}

// Uploads, downloads and launches of one block keep their order without a wait in the test.
TEST_P(host_transfers, keep_the_order_of_their_launches) {
  const auto count = words_of(5 * mebi) + 17;
  const auto target = device_side().holding(values(count, 1));
  (void)launch_fill(target, 1, device_side().stream);  // loads the kernel
  gate closed;
  closed.hold(device_side().stream);
  std::vector<moving> downloads;
  std::vector<moving> uploads;
  std::vector<values> expected;
  for (int round = 0; round < 4; ++round) {
    const stream_ref first = round % 2 == 0 ? device_side().stream : device_side().other;
    const stream_ref second = round % 2 == 0 ? device_side().other : device_side().stream;
    expected.push_back(draw(count));
    uploads.push_back(start_upload(target, expected.back(), first));
    downloads.push_back(start_download(target, second));
    const auto value = static_cast<std::uint32_t>(random_());
    (void)launch_fill(target, value, first);
    downloads.push_back(start_download(target, second));
    expected.emplace_back(count, value);
  }
  // The launches have been committed, so no lease is held while they wait for the device.
  EXPECT_EQ(device_side().runtime->statistics().leases, 0U);
  closed.open();
  for (std::size_t i = 0; i < downloads.size(); ++i) {
    EXPECT_TRUE(finish(device_side(), downloads[i]) == expected[i]) << i;
  }
}

TEST_P(host_transfers, delay_no_other_stream) {
  const auto count = words_of(20 * mebi);
  const auto held = device_side().holding(values(count, 1));
  const auto held_too = device_side().holding(values(count, 2));
  const auto other = device_side().allocate(count);
  gate closed;
  closed.hold(device_side().stream);
  std::vector<moving> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(start_upload(held, values(count, 3), device_side().stream));
    waiting.push_back(start_download(held_too, device_side().stream));
  }
  closed.wait_until_reached();
  const auto sent = draw(count);
  const auto up = start_upload(other, sent, device_side().other);
  EXPECT_TRUE(finish(device_side(), start_download(other, device_side().other)) == sent);
  EXPECT_FALSE(device_side().done(waiting.front().point));
  closed.open();
  EXPECT_EQ(finish(device_side(), waiting.back()), values(count, 2));
  EXPECT_EQ(download(held, device_side().other), values(count, 3));
}

TEST_P(host_transfers, refuse_what_they_cannot_do) {
  EXPECT_TRUE(
      throws(errc::stream_misuse, "stream", [] { (void)host_transfer::upload({}, nullptr, 0); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "source",
                     [&] { (void)host_transfer::upload(device_side().stream, nullptr, 10); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "target",
                     [&] { (void)host_transfer::download(device_side().stream, nullptr, 10); }));
  const auto target = device_side().allocate(10);
  const auto movement = start_upload(target, values(10, 1), device_side().stream);
  EXPECT_TRUE(throws(errc::stream_misuse, "already called",
                     [&] { movement.transfer->enqueue(target.data()); }));
  detail::runtime_core::of(*device_side().runtime)->wait_until_complete(movement.point);
  (void)device_side().runtime->shut_down();
  EXPECT_TRUE(throws(errc::shutting_down, "",
                     [&] { (void)host_transfer::download(device_side().stream, nullptr, 10); }));
}

// An upload releases its source once it has been copied to pinned memory.
TEST(host_transfers_to_a_gpu, let_go_of_the_source_early) {
  const side gpu("pretended:0");
  for (const auto bytes : {host_transfer::max_at_once, 3 * mebi}) {
    const auto target = gpu.allocate(words_of(bytes));
    gate closed;
    closed.hold(gpu.stream);
    auto movement = start_upload(target, values(target.size(), 7), gpu.stream);
    const auto source = std::weak_ptr(movement.memory);
    movement.memory.reset();
    await([&] { return source.expired(); });
    closed.open();
    EXPECT_EQ(download(target, gpu.other), values(target.size(), 7));
  }
}

// All transfers in flight on one stream share one ring.
TEST(host_transfers_to_a_gpu, of_one_stream_share_pinned_memory) {
  const auto device = std::make_shared<pinning_gpu>();
  const side gpu(device);
  const auto target = gpu.allocate(words_of(10 * mebi));
  gate closed;
  closed.hold(gpu.stream);
  std::vector<moving> movements;
  for (std::uint32_t i = 0; i < 20; ++i) {
    movements.push_back(start_upload(target, values(target.size(), i), gpu.stream));
  }
  EXPECT_LE(device->peak(), 5 * mebi);
  EXPECT_EQ(gpu.runtime->statistics().pinned_bytes, device->pinned());
  closed.open();
  EXPECT_EQ(download(target, gpu.other), values(target.size(), 19));
}

// A driver whose calls return only after completion, as with CUDA_LAUNCH_BLOCKING=1.
TEST(host_transfers_to_a_gpu, get_along_with_a_driver_that_blocks) {
  class blocking_gpu final : public pinning_gpu {
   public:
    void copy(void* destination, const void* source, std::size_t bytes, copy_direction direction,
              native_stream* s) override {
      pinning_gpu::copy(destination, source, bytes, direction, s);
      real().synchronize(s);
    }
  };
  const side gpu(std::make_shared<blocking_gpu>());
  const auto count = words_of(9 * mebi) + 1;
  const auto target = gpu.allocate(count);
  const auto up = start_upload(target, values(count, 5), gpu.stream);
  EXPECT_EQ(finish(gpu, start_download(target, gpu.stream)), values(count, 5));
}

}  // namespace
}  // namespace sluice::test
