// SPDX-License-Identifier: Apache-2.0
// Uses for whose points the host has no memory. The thread that publishes one waits for a point,
// and stops no other thread meanwhile.
#include "tests/support/copy_side.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/use_state.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

thread_local bool publishes_here = false;

/// A device after whose record the next allocation of the publishing thread fails.
class recording_gpu final : public pretended_gpu {
 public:
  recording_gpu() : pretended_gpu(0, open_host_device()) {}
  void record(native_event* e, std::uint64_t value, native_stream* s) override {
    pretended_gpu::record(e, value, s);
    if (publishes_here) fail_allocation(1);
  }
};

class use_without_memory : public ::testing::Test {
 protected:
  /// The points of one list that need no heap memory.
  static constexpr std::size_t max_inline = 4;

  use_without_memory() {
    gpu_->watch = [this](pretended_gpu::call c) {
      if (c == pretended_gpu::call::query && publishes_here) waits_.store(true);
    };
    side_ = std::make_unique<side>(gpu_);
    x_ = side_->allocate(64);
    side_->stream.synchronize();
    for (std::size_t i = 0; i <= max_inline + 1; ++i) {
      streams_.push_back(side_->runtime->create_stream());
      closed_.hold(streams_.back());
    }
  }
  ~use_without_memory() override {
    closed_.open();
    if (publishing_.joinable()) publishing_.join();
    x_ = {};
  }

  /// Runs `publish` on another thread until it waits for the device.
  void publish_without_memory(std::function<void()> publish) {
    publishing_ = std::thread([publish = std::move(publish)] {
      publishes_here = true;
      publish();
      fail_allocation(0);
    });
    await([this] { return waits_.load(); });
  }
  void finish() {
    closed_.open();
    publishing_.join();
  }

  std::shared_ptr<pretended_gpu> gpu_ = std::make_shared<recording_gpu>();
  std::atomic<bool> waits_{false};
  std::unique_ptr<side> side_;
  words x_;
  std::vector<sluice::stream> streams_;
  gate closed_;
  std::thread publishing_;
};

TEST_F(use_without_memory, of_a_launch_keeps_its_lease_and_not_the_lock) {
  const auto read = [this](const sluice::stream& stream) {
    auto recorder = launch_recorder::strict(stream);
    recorder.read(x_);
    recorder.preflight();
    return recorder;
  };
  for (std::size_t i = 0; i < max_inline; ++i) (void)read(streams_[i]).commit();
  timeline_point point;
  auto recorder = read(streams_[max_inline]);
  publish_without_memory([&] { point = recorder.commit(); });
  EXPECT_EQ(uses_of(x_).all.size(), 1 + max_inline) << "the allocation, and the other reads";
  auto writer = launch_recorder::strict(streams_.back());
  writer.write(x_);
  EXPECT_FALSE(writer.try_preflight()) << "the writer would not wait for the reader";
  writer.cancel();
  finish();
  EXPECT_TRUE(side_->done(point));
  EXPECT_EQ(side_->runtime->statistics().leases, 0u);
}

TEST_F(use_without_memory, without_a_recorder_hides_no_earlier_write) {
  auto& runtime = *side_->runtime;
  timeline_point earlier;
  for (std::size_t i = 0; i <= max_inline; ++i) {
    earlier = runtime.record_use(x_.block(), streams_[i], access_kind::write);
  }
  timeline_point point;
  publish_without_memory(
      [&] { point = runtime.record_use(x_.block(), streams_.back(), access_kind::write); });
  const auto meanwhile = uses_of(x_);
  EXPECT_EQ(meanwhile.last_write, earlier);
  EXPECT_EQ(meanwhile.all.size(), max_inline + 1);
  finish();
  EXPECT_EQ(uses_of(x_).last_write, point);
}

}  // namespace
}  // namespace sluice::test
