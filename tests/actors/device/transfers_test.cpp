// SPDX-License-Identifier: Apache-2.0
// Uploads and downloads of a device actor on a pretended GPU: what they pin, and which threads do
// the work.
#include "tests/actors/session.hpp"
#include "tests/support/pinning_gpu.hpp"

#include <sluice/envelope/completion_engine.hpp>

#include <atomic>
#include <cstdint>
#include <numeric>
#include <thread>

namespace sluice::test {
namespace {

using words = std::vector<std::uint32_t>;

/// The thread that completes the launches of `service`.
std::thread::id completion_thread(device_service& service) {
  struct probe final : continuation {
    explicit probe(std::atomic<std::thread::id>& t) : thread(t) {}
    std::shared_ptr<launch_reply> complete(const error*) noexcept override {
      thread = std::this_thread::get_id();
      return nullptr;
    }
    std::atomic<std::thread::id>& thread;
  };
  std::atomic<std::thread::id> thread{};
  const auto stream = service.runtime().create_stream();
  service.engine().submit(stream, 0, std::make_unique<probe>(thread));
  await([&] { return thread.load() != std::thread::id(); });
  return thread;
}

class transfers_on_a_gpu : public ::testing::Test {
 protected:
  void TearDown() override {
    session_.end(actor_);
    session_.expect_nothing_left();
  }
  const std::shared_ptr<pinning_gpu> gpu_ = std::make_shared<pinning_gpu>();
  session session_{gpu_};
  device_actor actor_ = spawn_device(session_.system(), session_.service());
};

TEST_F(transfers_on_a_gpu, pin_a_small_part_of_what_they_move) {
  words values((std::size_t{257} << 20U) / sizeof(std::uint32_t));
  std::iota(values.begin(), values.end(), static_cast<std::uint32_t>(make_generator()()));
  const auto there = session_.ask<tensor>(actor_, sluice::upload{.values = values});
  const bool equal =
      session_.ask<host_tensor>(actor_, sluice::download{.x = there}).to_vector<std::uint32_t>() ==
      values;
  EXPECT_TRUE(equal);
  EXPECT_LE(gpu_->peak(), values.size() * sizeof(std::uint32_t) / 8);
}

TEST_F(transfers_on_a_gpu, free_pinned_memory_on_a_thread_of_its_own) {
  auto& service = *session_.service();
  const std::set<std::thread::id> others{std::this_thread::get_id(), completion_thread(service)};
  {
    // More than is kept for later transfers.
    words values((std::size_t{257} << 20U) / sizeof(std::uint32_t));
    (void)session_.ask<tensor>(actor_, sluice::upload{.values = std::move(values)});
  }
  session_.settle();
  // The runtime's own threads may still be returning what they used.
  await([&] {
    (void)service.runtime().trim_memory();
    return gpu_->pinned() == 0;
  });
  EXPECT_EQ(gpu_->freed_by().size(), 1U);
  for (const auto thread : gpu_->freed_by()) EXPECT_FALSE(others.contains(thread));
}

}  // namespace
}  // namespace sluice::test
