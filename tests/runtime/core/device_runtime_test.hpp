// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/devices.hpp"

#include <sluice/runtime/launch_recorder.hpp>

namespace sluice::test {

/// device_runtime_test.cpp instantiates the tests.
class runtime_on : public device_test {
 protected:
  /// Publishes a launch on `stream` that uses all of `ref` and enqueues nothing.
  timeline_point launch(stream_ref stream, const gpu_ref<float>& ref, access_kind access) {
    auto recorder = launch_recorder::strict(stream);
    recorder.use(ref.block(), access, true);
    recorder.preflight();
    return recorder.commit();
  }
};

}  // namespace sluice::test
