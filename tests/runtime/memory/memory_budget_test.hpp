// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/runtime/memory/room_wait_limit.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace sluice::test {

/// The tests are in several files; memory_budget_test.cpp instantiates all of them.
class budget_on : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    device_ = open_device(GetParam());
    budget_ = std::make_shared<memory_budget>();
    faults_ = std::make_shared<fault_countdown>();
    runtime_ = make_runtime();
    stream_ = runtime_->create_stream();
  }
  void TearDown() override {
    if (!runtime_) return;
    // Before the runtime ends, so that only returned memory is discharged.
    stream_.synchronize();
    (void)runtime_->trim_memory();
    const auto left = budget_->snapshot();
    EXPECT_EQ(left.held, 0u);
    EXPECT_TRUE(left.tags.empty());
    stream_ = {};
    runtime_.reset();
    expect_all_free(*budget_);
  }
  /// Expects that nothing is charged.
  static void expect_all_free(memory_budget& budget) {
    EXPECT_EQ(budget.snapshot().held, 0u);
    EXPECT_EQ(budget.snapshot().reserved, 0u);
  }

  /// Another runtime on the same device and budget.
  [[nodiscard]] std::unique_ptr<device_runtime> make_runtime() const {
    return std::make_unique<device_runtime>(
        device_, runtime_options{
                     .resource = make_budget_resource(
                         make_pool_resource(make_failing_resource(make_async_resource(), faults_)),
                         budget_)});
  }
  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] memory_budget& budget() const { return *budget_; }
  [[nodiscard]] const std::shared_ptr<memory_budget>& shared_budget() const { return budget_; }
  [[nodiscard]] fault_countdown& faults() const { return *faults_; }
  [[nodiscard]] block_ref allocate(std::size_t bytes, allocation_tag tag = "budgeted") const {
    return runtime().allocate_bytes(bytes, stream(), tag);
  }
  [[nodiscard]] memory_reservation reserve(const std::vector<std::size_t>& sizes) const {
    return runtime().reserve_memory(sizes);
  }

 private:
  room_wait_limit no_wait_{std::chrono::milliseconds(0)};
  std::shared_ptr<device> device_;
  std::shared_ptr<memory_budget> budget_;
  std::shared_ptr<fault_countdown> faults_;
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
};

}  // namespace sluice::test
