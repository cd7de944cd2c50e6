// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/launch_recorder.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace sluice::test {

/// The tests are in several files; launch_recorder_test.cpp instantiates all of them.
class launch_recorder_on : public device_test {
 protected:
  [[nodiscard]] gpu_ref<std::uint32_t> fresh(std::size_t count = 64) {
    return runtime().allocate<std::uint32_t>(count, stream(), "test");
  }
  [[nodiscard]] column external() {
    return column::external(runtime().device().id(), outside_, sizeof outside_, element_type::u32);
  }
  void expect_no_lease() { EXPECT_EQ(runtime().statistics().leases, 0u); }

 private:
  std::uint32_t outside_[4] = {};
};

/// Enqueues a write of `value` to every element.
inline void fill(const gpu_ref<std::uint32_t>& ref, std::uint32_t value, stream_ref on) {
  on.device().fill(ref.data(), &value, sizeof value, ref.size(), on.native());
}

}  // namespace sluice::test
