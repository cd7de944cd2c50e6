// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/external_memory.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace sluice::test {

/// Calls `f.operator()<T>()` for each element type that both formats have.
template <class Function>
void for_each_real_type(Function f) {
  f.template operator()<std::uint8_t>();
  f.template operator()<std::int8_t>();
  f.template operator()<std::int16_t>();
  f.template operator()<std::uint16_t>();
  f.template operator()<std::int32_t>();
  f.template operator()<std::uint32_t>();
  f.template operator()<std::int64_t>();
  f.template operator()<std::uint64_t>();
  f.template operator()<f16>();
  f.template operator()<float>();
  f.template operator()<double>();
}

/// The return of an import, as its producer observes it.
struct returned {
  std::atomic<int> times{0};
  std::atomic<bool> elsewhere{false};  ///< on a thread other than the test's
  std::atomic<bool> too_early{false};  ///< while `in_use` was true
  std::atomic<bool> in_use{false};
  std::thread::id test_thread = std::this_thread::get_id();

  void note() {
    elsewhere.store(std::this_thread::get_id() != test_thread);
    if (in_use.load()) too_early.store(true);
    times.fetch_add(1);
  }
  void wait() const {
    await([this] { return times.load() != 0; });
  }
};

/// Tests of memory that passes between the runtime and another program on the same device. The
/// other program has a runtime of its own.
class external_memory_test : public device_test {
 protected:
  void SetUp() override {
    device_test::SetUp();
    if (IsSkipped()) return;
    other_ = std::make_unique<device_runtime>(open_device(GetParam()));
    other_stream_ = other_->create_stream();
    // Loads the kernel that is launched behind gates.
    const auto warm = words(4);
    enqueue_fill(warm, 0, other_stream_);
    other_stream_.synchronize();
  }
  void TearDown() override {
    other_stream_ = sluice::stream();
    other_.reset();
    device_test::TearDown();
  }

  [[nodiscard]] device_runtime& other() const { return *other_; }
  [[nodiscard]] stream_ref other_stream() const { return other_stream_; }
  [[nodiscard]] foreign_stream named(stream_ref s) const { return foreign_stream(s.native()); }

  /// New memory of the other program.
  [[nodiscard]] gpu_ref<std::uint32_t> words(std::size_t count) {
    auto ref = other_->allocate<std::uint32_t>(count, other_stream_, "producer");
    other_stream_.synchronize();
    return ref;
  }
  /// Launches a copy.
  static timeline_point copy(const gpu_ref<std::uint32_t>& destination,
                             const gpu_ref<std::uint32_t>& source, stream_ref stream) {
    auto recorder = launch_recorder::strict(stream);
    recorder.read(source).write(destination);
    recorder.preflight();
    stream.device().copy(destination.data(), source.data(), source.bytes(),
                         copy_direction::device_to_device, stream.native());
    return recorder.commit();
  }
  /// Whether the launch at `point` has completed, according to the device.
  [[nodiscard]] bool ended(timeline_point point) {
    runtime().reap_pending();
    return detail::runtime_core::of(runtime())->find(point.stream)->completed(point.ticket);
  }
  /// Waits until the number of imports is `count`. An import still counts for a moment after its
  /// producer's deleter has been called.
  void await_imports(std::size_t count) {
    await([&] { return runtime().statistics().imports == count; });
  }
  void expect_nothing_is_out() {
    await_imports(0);
    EXPECT_EQ(runtime().statistics().exports, 0u);
    EXPECT_EQ(runtime().statistics().leases, 0u);
  }

  [[nodiscard]] std::uint32_t random_word() { return static_cast<std::uint32_t>(generator_()); }

 private:
  std::mt19937_64 generator_ = make_generator();
  std::unique_ptr<device_runtime> other_;
  sluice::stream other_stream_;
};

}  // namespace sluice::test
