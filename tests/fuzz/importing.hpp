// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"
#include "tests/fuzz/field_reader.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/external_memory.hpp>
#include <sluice/runtime/host_device.hpp>

#include <atomic>
#include <thread>

namespace sluice::fuzz {

/// The host runtime that descriptors are imported into. Nothing is launched: no address of an input
/// is looked at.
class importing {
 public:
  static importing& instance() {
    static importing importer;
    return importer;
  }

  [[nodiscard]] device_runtime& runtime() noexcept { return runtime_; }
  /// Any order; a stream may also be none of a host device's.
  [[nodiscard]] import_options options(field_reader& input) {
    import_options read{.ready = input.flag()};
    const auto stream = input.byte() % 4;
    if (stream == 1) read.stream = foreign_stream(stream_.ref().native());
    if (stream > 1) read.stream = foreign_stream(static_cast<std::uintptr_t>(stream - 1));
    return read;
  }
  /// Returns once nothing is out, with what the producer has been told by then.
  void await_return() {
    while (runtime_.statistics().imports != 0) std::this_thread::yield();
  }

 private:
  device_runtime runtime_{open_host_device()};
  sluice::stream stream_ = runtime_.create_stream();
};

/// How often a producer was called, from the reclaim thread.
using returns = std::atomic<int>;

}  // namespace sluice::fuzz
