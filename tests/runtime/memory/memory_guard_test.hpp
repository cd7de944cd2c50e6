// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_guard.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {

inline constexpr std::size_t zone = 256;

/// The tests are in several files; memory_guard_test.cpp instantiates all of them.
class guard_on : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    open({});
  }
  /// Opens a runtime with a guard over `async`, and a failing and a counting adaptor between them.
  void open(guard_options options, runtime_options others = {}) {
    open(open_device(GetParam()), make_async_resource(), std::move(options), std::move(others));
  }
  void open(std::shared_ptr<device> device, std::unique_ptr<memory_resource> upstream,
            guard_options options, runtime_options others = {}) {
    close();
    below_ = std::make_shared<memory_statistics>();
    faults_ = std::make_shared<fault_countdown>();
    counters_ = std::make_shared<guard_counters>();
    options.counters = counters_;
    if (!options.on_report) {
      options.on_report = [this](const guard_report& found) {
        const std::lock_guard lock(mutex_);
        reports_.push_back(found);
      };
    }
    others.resource = make_guard_resource(
        make_statistics_resource(make_failing_resource(std::move(upstream), faults_), below_),
        std::move(options));
    runtime_ = std::make_unique<device_runtime>(std::move(device), std::move(others));
    stream_ = runtime_->create_stream();
    other_ = runtime_->create_stream();
  }
  /// Ends the runtime, which completes all checks.
  void close() {
    stream_ = {};
    other_ = {};
    const bool lost = runtime_ && runtime_->device().lost();
    runtime_.reset();
    if (below_ && !lost) {
      EXPECT_EQ(below_->counters().bytes.current, 0u) << "the guard kept memory";
    }
  }
  void TearDown() override {
    close();
    EXPECT_TRUE(take_reports().empty()) << "something was reported that no test asked for";
  }

  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] stream_ref other() const { return other_; }
  [[nodiscard]] const guard_counters& counters() const { return *counters_; }
  [[nodiscard]] fault_countdown& faults() const { return *faults_; }
  [[nodiscard]] std::size_t held_below() const { return below_->counters().bytes.current; }
  [[nodiscard]] std::size_t blocks_below() const { return below_->counters().allocations.current; }

  [[nodiscard]] block_ref allocate(std::size_t bytes, allocation_tag tag = "guarded") const {
    return runtime().allocate_bytes(bytes, stream(), tag);
  }
  /// Makes a launch that writes `count` bytes from byte `offset` of `block`, possibly outside of
  /// it.
  timeline_point write(const block_ref& block, std::ptrdiff_t offset, std::size_t count,
                       stream_ref stream, std::uint8_t value = 0x11) {
    auto recorder = launch_recorder::strict(stream);
    recorder.use(block, access_kind::write, true);
    recorder.preflight();
    scribble(static_cast<std::byte*>(block.address()) + offset, count, stream, value);
    return recorder.commit();
  }
  /// Enqueues such a write without a recorder.
  static void scribble(std::byte* address, std::size_t count, stream_ref stream,
                       std::uint8_t value = 0x11) {
    stream.device().fill(address, &value, 1, count, stream.native());
  }
  /// Frees `block`, and waits until the guard has compared and filled it.
  void free_and_await_quarantine(block_ref block) const {
    auto* reclaim = detail::timeline::of(detail::runtime_core::of(runtime())->reclaim_stream());
    const auto before = reclaim->newest().ticket;
    block = {};
    reclaim->wait_until(before + 1);
  }
  [[nodiscard]] std::vector<guard_report> take_reports() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reports_, {});
  }
  /// Waits for the only report.
  [[nodiscard]] guard_report await_report() {
    await([&] {
      const std::lock_guard lock(mutex_);
      return !reports_.empty();
    });
    const auto all = take_reports();
    EXPECT_EQ(all.size(), 1u);
    return all.front();
  }

 private:
  std::mutex mutex_;
  std::vector<guard_report> reports_;
  std::shared_ptr<memory_statistics> below_;
  std::shared_ptr<fault_countdown> faults_;
  std::shared_ptr<guard_counters> counters_;
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
  sluice::stream other_;
};

}  // namespace sluice::test
