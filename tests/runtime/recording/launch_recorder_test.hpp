// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/small_launches.hpp"
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

}  // namespace sluice::test
