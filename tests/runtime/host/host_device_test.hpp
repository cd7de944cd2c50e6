// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

namespace sluice::test {

/// The host device alone, with streams and events that the test creates.
class host_device : public ::testing::Test {
 protected:
  explicit host_device(const host_device_options& options = {})
      : device_(open_host_device(options)) {}

  [[nodiscard]] device& tested() { return *device_; }
  template <class Function>
  void run_on(native_stream* stream, Function function) {
    device_->notify(stream, std::move(function));
  }
  /// Blocks `stream` until the gate is open.
  void hold(native_stream* stream, std::atomic<bool>& open) {
    run_on(stream, [&open] { open.wait(false); });
  }
  static void open(std::atomic<bool>& gate) {
    gate.store(true);
    gate.notify_all();
  }

 private:
  std::shared_ptr<device> device_;
};

}  // namespace sluice::test
