// SPDX-License-Identifier: Apache-2.0
// Controls of compute-sanitizer: each leaves out one wait around stream-ordered memory, and the
// tool must report it (CONTRIBUTING.md). No gate is needed, because the tool judges the order that
// waits establish, not the order of execution.
#include "runtime/core/runtime_core.hpp"
#include "tests/runtime/hazards/hazard_run.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <gtest/gtest.h>

namespace sluice::test {
namespace {

class compute_sanitizer_controls : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
    if (!under_compute_sanitizer()) GTEST_SKIP() << "compute-sanitizer judges this";
    // With this resource every free is a free of the device.
    runtime_ = std::make_unique<device_runtime>(open_device("cuda"),
                                                runtime_options{.resource = make_async_resource()});
    first_ = runtime_->create_stream();
    second_ = runtime_->create_stream();
  }

  void leave_out(detail::hazard kind) {
    detail::runtime_core::of(*runtime_)->leave_out(
        [kind](detail::hazard candidate) { return candidate == kind; });
  }
  [[nodiscard]] gpu_ref<hazard_word> allocate() const {
    return runtime_->allocate<hazard_word>(1000, first_, "control");
  }
  void write(const gpu_ref<hazard_word>& out, stream_ref stream) const {
    auto recorder = begin_write(out, stream);
    enqueue_mix(stream, {.out = out.data(), .count = out.size(), .constant = 7});
    (void)recorder.commit();
  }
  [[nodiscard]] stream_ref first() const { return first_; }
  [[nodiscard]] stream_ref second() const { return second_; }

 private:
  std::unique_ptr<device_runtime> runtime_;
  stream first_;
  stream second_;
};

TEST_F(compute_sanitizer_controls, a_free_without_its_wait_is_a_use_after_free) {
  leave_out(detail::hazard::free_after_use);
  auto x = allocate();
  write(x, second());
  x = {};
}

TEST_F(compute_sanitizer_controls, a_use_without_the_allocations_wait_is_a_use_before_it) {
  leave_out(detail::hazard::allocation_ready);
  write(allocate(), second());
}

}  // namespace
}  // namespace sluice::test
