// SPDX-License-Identifier: Apache-2.0
// Pinned memory that clients own.
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/pinning_gpu.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/transfer_launches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace sluice::test {
namespace {

constexpr std::size_t word_count = 100'000;  // words; more than pass through a piece

class client_memory : public ::testing::Test {
 protected:
  [[nodiscard]] device_runtime& runtime() { return *gpu_.runtime; }
  [[nodiscard]] side& gpu() { return gpu_; }
  [[nodiscard]] pinning_gpu& device() { return *device_; }
  values numbers(std::size_t n) { return random_values<std::uint32_t>(generator_, n); }
  /// Uploads what is at `source` to a new block and returns the words of the block.
  values through_the_device(const std::shared_ptr<void>& source, std::size_t words_to_move) {
    const auto block = gpu_.runtime->allocate<std::uint32_t>(words_to_move, gpu_.stream);
    moving up;
    up.transfer = host_transfer::upload(gpu_.stream, source, block.bytes());
    up = launch(std::move(up), block, access_kind::write, gpu_.stream);
    const auto target = runtime().allocate_pinned(block.bytes());
    moving down;
    down.transfer = host_transfer::download(gpu_.stream, target, block.bytes());
    down = launch(std::move(down), block, access_kind::read, gpu_.stream);
    detail::runtime_core::of(runtime())->wait_until_complete(down.point);
    down.transfer->finish();
    const auto* const found = static_cast<const std::uint32_t*>(target.get());
    return {found, found + words_to_move};
  }

  static constexpr std::size_t limit = 8 * mebi;

 private:
  std::mt19937_64 generator_ = make_generator();
  std::shared_ptr<pinning_gpu> device_ = std::make_shared<pinning_gpu>();
  side gpu_{device_, {.client_pinned_limit = limit}};
};

TEST_F(client_memory, is_read_and_written_by_the_device_itself) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, word_count}) {
    const auto source = runtime().allocate_pinned(n * sizeof(std::uint32_t));
    const auto contents = numbers(n);
    std::memcpy(source.get(), contents.data(), n * sizeof(std::uint32_t));
    EXPECT_EQ(through_the_device(source, n), contents);
  }
  EXPECT_EQ(runtime().statistics().pinned_bytes, 0U) << "transfers needed memory of their own";
  EXPECT_EQ(runtime().statistics().client_pinned_bytes, device().pinned());
}

TEST_F(client_memory, may_be_moved_in_parts) {
  const auto whole = runtime().allocate_pinned(word_count * sizeof(std::uint32_t));
  const auto contents = numbers(word_count);
  std::memcpy(whole.get(), contents.data(), word_count * sizeof(std::uint32_t));
  constexpr std::size_t first = 777;
  constexpr std::size_t part = word_count - first;
  const std::shared_ptr<void> behind(whole, static_cast<std::uint32_t*>(whole.get()) + first);
  EXPECT_EQ(through_the_device(behind, part), values(contents.begin() + first, contents.end()));
  EXPECT_EQ(runtime().statistics().pinned_bytes, 0U);
}

TEST_F(client_memory, is_told_from_other_memory) {
  const auto held = runtime().allocate_pinned(mebi);
  const auto contents = std::make_shared<values>(numbers(word_count));
  EXPECT_EQ(through_the_device({contents, contents->data()}, word_count), *contents);
  EXPECT_GT(runtime().statistics().pinned_bytes, 0U) << "it passed through the slots";
  auto& buffers = detail::runtime_core::of(runtime())->staging().clients();
  const auto* const begin = static_cast<const std::byte*>(held.get());
  EXPECT_TRUE(buffers.contain(begin, mebi));
  EXPECT_TRUE(buffers.contain(begin + mebi, 0));
  EXPECT_FALSE(buffers.contain(begin, mebi + 1));
  EXPECT_FALSE(buffers.contain(begin + 1, mebi));
  EXPECT_FALSE(buffers.contain(begin + 1, ~std::size_t{0}));
  EXPECT_FALSE(buffers.contain(begin - 1, 1));
}

TEST_F(client_memory, has_a_limit_of_its_own) {
  auto all = runtime().allocate_pinned(limit);
  EXPECT_TRUE(throws(errc::over_budget, "runtime_options::client_pinned_limit",
                     [&] { (void)runtime().allocate_pinned(1); }));
  EXPECT_TRUE(throws(errc::over_budget, "runtime_options::client_pinned_limit",
                     [&] { (void)runtime().allocate_pinned(~std::size_t{0}); }));
  // Transfers of other memory go on.
  const auto block = runtime().allocate<std::uint32_t>(word_count, gpu().stream);
  const auto contents = numbers(word_count);
  const auto up = start_upload(block, contents, gpu().stream);
  EXPECT_EQ(finish(gpu(), start_download(block, gpu().stream)), contents);
  std::thread([last = std::move(all)]() mutable { last.reset(); }).join();
  EXPECT_NE(runtime().allocate_pinned(limit), nullptr);
}

TEST_F(client_memory, stays_with_a_transfer_until_it_has_completed) {
  const auto block = runtime().allocate<std::uint32_t>(word_count, gpu().stream);
  const auto contents = numbers(word_count);
  auto source = runtime().allocate_pinned(limit);
  std::memcpy(source.get(), contents.data(), word_count * sizeof(std::uint32_t));
  gate g;
  g.hold(gpu().stream);
  moving up;
  up.transfer = host_transfer::upload(gpu().stream, std::move(source), block.bytes());
  up = launch(std::move(up), block, access_kind::write, gpu().stream);
  EXPECT_TRUE(throws(errc::over_budget, "", [&] { (void)runtime().allocate_pinned(1); }));
  g.open();
  EXPECT_EQ(finish(gpu(), start_download(block, gpu().stream)), contents);
  up.transfer.reset();
  EXPECT_NE(runtime().allocate_pinned(limit), nullptr);
}

TEST_F(client_memory, may_be_registered_memory_of_others) {
  const auto contents = numbers(word_count);
  const auto memory = std::make_shared<values>(contents);
  const auto bytes = word_count * sizeof(std::uint32_t);
  const std::weak_ptr<values> watch = memory;
  auto pinned = runtime().register_host({memory, memory->data()}, bytes);
  EXPECT_EQ(pinned.get(), memory->data());
  EXPECT_EQ(device().pinned(), bytes);
  EXPECT_EQ(through_the_device(pinned, word_count), contents);
  EXPECT_EQ(runtime().statistics().pinned_bytes, 0U) << "it passed through other memory";
  // A part of it that another owner keeps alive.
  EXPECT_EQ(through_the_device({memory, memory->data() + 7}, word_count - 7),
            values(contents.begin() + 7, contents.end()));
  EXPECT_EQ(runtime().statistics().pinned_bytes, 0U);
  EXPECT_EQ(runtime().statistics().client_pinned_bytes, device().pinned() - bytes);
}

TEST_F(client_memory, is_not_registered_twice) {
  const auto memory = std::make_shared<values>(numbers(word_count));
  const auto whole = word_count * sizeof(std::uint32_t);
  auto* const first = reinterpret_cast<std::byte*>(memory->data());
  const auto register_part = [&](std::size_t offset, std::size_t bytes) {
    return runtime().register_host({memory, first + offset}, bytes);
  };
  const auto held = register_part(4096, 8192);
  for (const auto& part : {std::pair<std::size_t, std::size_t>{4096, 8192},
                           {0, 4097},
                           {12287, 1},
                           {5000, 100},
                           {0, whole}}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "pinned already",
                       [&] { (void)register_part(part.first, part.second); }))
        << part.first << " + " << part.second;
  }
  EXPECT_NE(register_part(0, 4096), nullptr);
  EXPECT_NE(register_part(12288, 4096), nullptr);
  EXPECT_TRUE(
      throws(errc::invalid_argument, "memory", [&] { (void)runtime().register_host(nullptr, 1); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "memory", [&] { (void)register_part(0, 0); }));
}

TEST_F(client_memory, is_released_after_its_registration_has_ended) {
  std::size_t pinned_at_release = 1;
  std::promise<std::thread::id> released;
  auto memory = std::shared_ptr<void>(new values(100), [&](void* p) {
    pinned_at_release = device().pinned();
    delete static_cast<values*>(p);
    released.set_value(std::this_thread::get_id());
  });
  runtime().register_host(std::move(memory), 400).reset();
  EXPECT_NE(released.get_future().get(), std::this_thread::get_id()) << "a driver call blocks";
  EXPECT_EQ(pinned_at_release, 0U);
}

TEST(client_memory_without_a_runtime, stays_registered_until_its_last_owner) {
  const auto device = std::make_shared<pinning_gpu>();
  std::shared_ptr<void> left;
  {
    const side gpu(device);
    left = gpu.runtime->register_host(std::make_shared<values>(100), 400);
  }
  EXPECT_EQ(device->pinned(), 400U);
  left.reset();
  EXPECT_EQ(device->pinned(), 0U);
}

TEST(client_memory_without_a_runtime, is_freed_by_its_last_owner) {
  const auto device = std::make_shared<pinning_gpu>();
  std::shared_ptr<void> left;
  {
    const side gpu(device);
    left = gpu.runtime->allocate_pinned(mebi);
    (void)gpu.runtime->allocate_pinned(mebi);
  }
  EXPECT_EQ(device->pinned(), mebi);
  std::memset(left.get(), 1, mebi);
  left.reset();
  EXPECT_EQ(device->pinned(), 0U);
}

}  // namespace
}  // namespace sluice::test
