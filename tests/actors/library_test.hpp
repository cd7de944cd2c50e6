// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/devices.hpp"

#include <utility>

namespace sluice::test {

/// A `device_test` with a library for its stream. `Make` is the function that makes the library.
template <auto* Make>
class library_test : public device_test {
 protected:
  void SetUp() override {
    device_test::SetUp();
    if (!IsSkipped()) library_ = Make(runtime(), stream());
  }
  void TearDown() override {
    library_.reset();
    device_test::TearDown();
  }

  decltype(Make(std::declval<device_runtime&>(), std::declval<stream_ref>())) library_;
};

}  // namespace sluice::test
