// SPDX-License-Identifier: Apache-2.0
// Launches of many blocks.
#include "tests/support/devices.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::test {
namespace {

class large_launches_on : public device_test {
 protected:
  void SetUp() override {
    device_test::SetUp();
    if (IsSkipped()) return;
    random_ = make_generator();
    for (std::size_t i = 0; i < 400; ++i) {
      blocks_.push_back(runtime().allocate<float>(16, stream(), "many"));
    }
    stream().synchronize();
  }
  void TearDown() override {
    blocks_.clear();
    device_test::TearDown();
  }

  /// Counts the heap allocations of a launch on the first `count` blocks. They are registered in
  /// random order, each twice.
  std::uint64_t allocations_of_launch(std::size_t count) {
    std::shuffle(blocks_.begin(), blocks_.end(), random_);
    stream().synchronize();  // a launch notes its unfinished dependencies
    const auto before = allocations_made();
    auto recorder = launch_recorder::strict(stream());
    for (int twice = 0; twice < 2; ++twice) {
      for (std::size_t i = 0; i < count; ++i) {
        i % 3 == 0 ? recorder.write(blocks_[i]) : recorder.read(blocks_[i]);
      }
    }
    recorder.preflight();
    EXPECT_EQ(recorder.recorded_count(), count);
    (void)recorder.commit();
    return allocations_made() - before;
  }

  std::mt19937_64 random_;
  std::vector<gpu_ref<float>> blocks_;
};

INSTANTIATE_TEST_SUITE_P(devices, large_launches_on, every_device(), parameter_name);

TEST_P(large_launches_on, allocate_no_more_than_small_ones) {
  for (int warm_up = 0; warm_up < 3; ++warm_up) (void)allocations_of_launch(blocks_.size());
  // The allocations that the device makes for events.
  const auto of_one = allocations_of_launch(1);
  for (const std::size_t count : {3, 8, 9, 24, 100, 400}) {
    EXPECT_EQ(allocations_of_launch(count), of_one) << count;
  }
}

TEST_P(large_launches_on, merge_registrations) {
  auto recorder = launch_recorder::strict(stream());
  for (const auto& block : blocks_) recorder.read(block);
  EXPECT_EQ(recorder.recorded_count(), blocks_.size());
  for (const auto& block : blocks_) recorder.read(block);
  for (std::size_t i = 0; i < blocks_.size(); i += 2) recorder.write(blocks_[i]);
  EXPECT_EQ(recorder.recorded_count(), blocks_.size());
  recorder.preflight();
  EXPECT_EQ(runtime().statistics().leases, blocks_.size());
  const auto point = recorder.commit();
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    EXPECT_EQ(uses_of(blocks_[i]).last_write == point, i % 2 == 0) << i;
  }
}

TEST_P(large_launches_on, wait_once_for_each_of_many_streams) {
  constexpr std::size_t streams = 24;
  gate closed;
  std::vector<sluice::stream> sources;
  std::vector<timeline_point> newest;
  for (std::size_t s = 0; s < streams; ++s) {
    sources.push_back(runtime().create_stream());
    closed.hold(sources.back());
    // Several points of one stream, of which only the newest is waited for.
    for (std::size_t i = s; i < blocks_.size(); i += streams) {
      auto writer = begin_write(blocks_[i], sources.back());
      const auto point = writer.commit();
      newest.resize(s + 1);
      newest[s] = point;
    }
  }
  std::shuffle(blocks_.begin(), blocks_.end(), random_);
  const auto reader_stream = runtime().create_stream();
  const auto before = runtime().statistics().waits;
  auto reader = launch_recorder::strict(reader_stream);
  for (const auto& block : blocks_) reader.read(block);
  reader.preflight();
  (void)reader.commit();
  EXPECT_EQ(runtime().statistics().waits, before + streams);
  for (std::size_t s = 0; s < streams; ++s) {
    EXPECT_TRUE(waits_for(reader_stream.ref(), sources[s].ref(), newest[s].ticket))
        << "the wait has not been queued";
  }
  closed.open();
}

}  // namespace
}  // namespace sluice::test
