// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/lease.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/followed_launch.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/gpu_ref.hpp>

#include <gtest/gtest.h>

namespace sluice::test {

/// Tests of leases that recorders of several threads hold.
///
/// The tests are in several files; lease_recorders_test.cpp instantiates all of them.
class leases_on : public device_test {
 protected:
  void SetUp() override {
    device_test::SetUp();
    if (!IsSkipped()) followed_launch::allow(runtime());
  }
  [[nodiscard]] gpu_ref<float> fresh() { return runtime().allocate<float>(16, stream(), "test"); }
  /// Waits until a writer waits for the block, which readers hold.
  static void await_waiting_writer(const gpu_ref<float>& ref) {
    auto& lease = detail::block_record::of(ref.block())->lease;
    await([&] {
      if (lease.try_shared() != detail::lease_answer::granted) return true;
      (void)lease.release_shared();
      return false;
    });
  }
};

}  // namespace sluice::test
