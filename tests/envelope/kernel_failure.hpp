// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/envelope/launches.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::test {

/// Faults at each step of the envelope. After each fault there is exactly one reply with the
/// expected code, and no lease, byte, release or unfinished recorder is left. Unless the device is
/// lost, the next launch succeeds.
class kernel_failure_test : public service_test {
 protected:
  void TearDown() override {
    if (service_ && !service_->device().lost()) {
      // The next launch succeeds.
      const auto next = allocate();
      fill(next, 77);
      expect_filled(next, 77);
    }
    box_ = {};
    service_test::TearDown();
  }

  /// Expects exactly one reply: this error.
  void expect_failure(const mailbox<words>& box, errc code, const std::string& word = {}) {
    const auto first = box.wait();
    ASSERT_TRUE(first.failure);
    EXPECT_EQ(first.failure->code(), code) << first.failure->what();
    EXPECT_NE(std::string(first.failure->what()).find(word), std::string::npos)
        << first.failure->what();
    settle(*service_);
    EXPECT_EQ(box.count(), 1u);
    EXPECT_EQ(test_lane().in_flight(), 0u);
    EXPECT_EQ(runtime().statistics().leases, 0u);
  }

  mailbox<words> box_;
};

}  // namespace sluice::test
