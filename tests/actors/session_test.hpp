// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/actors/session.hpp"

#include <memory>
#include <utility>

namespace sluice::test {

/// A session with a `scoped_device` on the device that the parameter names. `TearDown` expects that
/// nothing is left.
class session_test : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (!IsSkipped()) open(open_device(GetParam()));
  }
  void TearDown() override {
    device_.reset();
    if (session_) session_->expect_nothing_left();
  }
  void open(std::shared_ptr<sluice::device> device) {
    device_.reset();
    session_ = std::make_unique<session>(std::move(device), completion_strategy::polled, lanes(),
                                         high_priority_lanes());
    device_ = std::make_unique<scoped_device>(session_->system(), session_->service(), trace());
  }
  /// The lanes of each library actor.
  [[nodiscard]] virtual std::size_t lanes() const { return 1; }
  /// Their further lanes for requests of high priority.
  [[nodiscard]] virtual std::size_t high_priority_lanes() const { return 0; }
  /// What watches the launches.
  [[nodiscard]] virtual std::shared_ptr<kernel_trace> trace() const { return nullptr; }
  [[nodiscard]] session& s() { return *session_; }
  [[nodiscard]] scoped_device& device() { return *device_; }

 private:
  std::unique_ptr<session> session_;
  std::unique_ptr<scoped_device> device_;
};

}  // namespace sluice::test
