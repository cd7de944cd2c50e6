// SPDX-License-Identifier: Apache-2.0
// Timestamps of a device, compared with the host's clock before and after gates. A GPU's clock is
// known to a few microseconds, so the test leaves a millisecond between a gate and a comparison.
#include "tests/support/devices.hpp"
#include "tests/support/gate.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace {

using namespace sluice;
using namespace sluice::test;
using clock = std::chrono::steady_clock;

class timestamps_on : public device_test {
 protected:
  void SetUp() override {
    device_test::SetUp();
    if (IsSkipped()) return;
    clock_ = device().make_timestamp_clock();
    for (auto& stamp : stamps_) stamp = device().create_timestamp();
  }
  void TearDown() override {
    for (auto* stamp : stamps_) {
      if (stamp != nullptr) device().destroy_timestamp(stamp);
    }
    clock_.reset();
    device_test::TearDown();
  }
  [[nodiscard]] sluice::device& device() const { return stream().device(); }

  /// The current time, at least a millisecond away from earlier and later events.
  static clock::time_point apart() {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto now = clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return now;
  }

  std::unique_ptr<timestamp_clock> clock_;
  std::array<native_timestamp*, 2> stamps_{};
};

TEST_P(timestamps_on, say_when_the_stream_reached_them) {
  const auto begun = apart();
  gate closed;
  ASSERT_TRUE(device().record_timestamp(stamps_[0], stream().native()));
  closed.hold(stream());
  ASSERT_TRUE(device().record_timestamp(stamps_[1], stream().native()));
  closed.wait_until_reached();
  const auto held = apart();
  closed.open();
  rest(stream());
  const auto finished = apart();
  ASSERT_TRUE(clock_->anchor());
  const auto before = clock_->time_of(stamps_[0]);
  const auto after = clock_->time_of(stamps_[1]);
  ASSERT_TRUE(before && after);
  EXPECT_LT(begun, *before);
  EXPECT_LT(*before, held);
  EXPECT_LT(held, *after);
  EXPECT_LT(*after, finished);
}

TEST_P(timestamps_on, can_be_recorded_again) {
  ASSERT_TRUE(device().record_timestamp(stamps_[0], stream().native()));
  rest(stream());
  ASSERT_TRUE(clock_->anchor());
  const auto between = apart();
  ASSERT_TRUE(device().record_timestamp(stamps_[0], stream().native()));
  rest(stream());
  const auto again = clock_->time_of(stamps_[0]);
  ASSERT_TRUE(again);
  EXPECT_LT(between, *again);
}

// A launch that is cancelled leaves a record on its stream, behind which others may wait.
TEST_P(timestamps_on, have_the_time_of_the_record_that_was_queued_last) {
  const auto other = runtime().create_stream();
  gate closed;
  closed.hold(stream());
  ASSERT_TRUE(device().record_timestamp(stamps_[0], stream().native()));
  ASSERT_TRUE(device().record_timestamp(stamps_[0], other.ref().native()));
  rest(other.ref());
  ASSERT_TRUE(clock_->anchor());
  const auto recorded = clock_->time_of(stamps_[0]);
  closed.open();
  rest(stream());
  EXPECT_EQ(clock_->time_of(stamps_[0]), recorded);
}

TEST_P(timestamps_on, keep_their_time_when_the_clocks_are_compared_anew) {
  ASSERT_TRUE(clock_->anchor());
  ASSERT_TRUE(device().record_timestamp(stamps_[0], stream().native()));
  rest(stream());
  const auto first = clock_->time_of(stamps_[0]);
  (void)apart();
  ASSERT_TRUE(clock_->anchor());
  const auto second = clock_->time_of(stamps_[0]);
  ASSERT_TRUE(first && second);
  EXPECT_LT(std::chrono::abs(*second - *first), std::chrono::milliseconds(1));
}

INSTANTIATE_TEST_SUITE_P(devices, timestamps_on, every_device(), parameter_name);

TEST(timestamps, are_not_recorded_on_a_lost_device) {
  device_runtime runtime(open_device("host"));
  const auto stream = runtime.create_stream();
  auto& device = runtime.device();
  auto* const stamp = device.create_timestamp();
  device.lose(error(errc::device_lost, "for a test"));
  EXPECT_FALSE(device.record_timestamp(stamp, stream.ref().native()));
  device.destroy_timestamp(stamp);
}

}  // namespace
