// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device.hpp>
#include <sluice/runtime/fault_countdown.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace sluice {

/// The kind of operation that a scripted fault affects.
enum class fault_target : std::uint8_t {
  launch,      ///< a host task: it does not run, and its ticket fails with `library_failure`
  copy,        ///< a copy or fill: it does not run, and its ticket fails with `library_failure`
  allocation,  ///< an allocation: it throws `out_of_memory`
  loss,        ///< the device is lost when the n-th launch, copy or fill is queued
};

/// Decides which operations of a host device fail.
///
///     const auto faults = std::make_shared<fault_script>();
///     device_runtime runtime{open_host_device({.faults = faults})};
///     faults->fail_nth(fault_target::copy, 1);  // the next copy or fill fails
///
/// One fault of each kind is pending at a time. Thread-safe.
class fault_script {
 public:
  /// Scripts a fault of kind `target`; see `fault_countdown::fail_nth`.
  ///
  /// A runtime retries a failed allocation once, so an allocation counts twice when it fails.
  void fail_nth(fault_target target, std::uint64_t nth, std::uint64_t count = 1) noexcept {
    countdowns_[static_cast<std::size_t>(target)].fail_nth(nth, count);
  }
  /// For the device: counts one operation. Returns whether it must fail.
  [[nodiscard]] bool strikes(fault_target target) noexcept {
    return countdowns_[static_cast<std::size_t>(target)].strikes();
  }

 private:
  std::array<fault_countdown, 4> countdowns_;
};

/// Random delays before tasks. They change the interleaving of streams, never the results.
struct host_jitter {
  std::uint64_t seed = 0;                  ///< seed of the random delays
  std::chrono::microseconds longest{200};  ///< the longest delay
};

/// Options of a host device.
struct host_device_options {
  int ordinal = 0;                         ///< number N of its name `host:N`
  std::optional<host_jitter> jitter{};     ///< none: no delays
  std::shared_ptr<fault_script> faults{};  ///< none: no scripted failures
  /// The number of threads that compute at once. Large tasks are shared with threads that the
  /// device starts for them, while fewer streams than this run a task. 0: the number of processors
  /// that the process may use. 1: each stream computes alone. The results are the same bits in all
  /// cases.
  int threads = 0;
};

/// Opens a host device: each stream is a thread, and work is asynchronous with real results.
///
/// See docs/concepts/devices_and_streams.md.
[[nodiscard]] SLUICE_EXPORT std::shared_ptr<device> open_host_device(
    const host_device_options& options = {});

}  // namespace sluice
