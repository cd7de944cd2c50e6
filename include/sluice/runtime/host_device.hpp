// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/fault_countdown.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace sluice {

/// What a scripted fault hits.
enum class fault_target : std::uint8_t {
  launch,      ///< a host task: it does not run and its ticket fails with `library_failure`
  copy,        ///< a copy or fill: likewise
  allocation,  ///< an allocation: it throws `out_of_memory`
  loss,        ///< the device is lost when the n-th launch, copy or fill is queued
};

/// Says which operations of a host device fail. One fault per kind is pending at a time.
/// Thread-safe.
class fault_script {
 public:
  /// See `fault_countdown::fail_nth`. (A runtime asks twice for memory.)
  void fail_nth(fault_target target, std::uint64_t nth, std::uint64_t count = 1) noexcept {
    countdowns_[static_cast<std::size_t>(target)].fail_nth(nth, count);
  }
  /// For the device: counts one operation; true when it is to fail.
  [[nodiscard]] bool strikes(fault_target target) noexcept {
    return countdowns_[static_cast<std::size_t>(target)].strikes();
  }

 private:
  std::array<fault_countdown, 4> countdowns_;
};

/// A random delay before each task, to shake out orderings. Results never depend on it.
struct host_jitter {
  std::uint64_t seed = 0;                  ///< seed of the random delays
  std::chrono::microseconds longest{200};  ///< the longest delay
};

/// How a host device is opened.
struct host_device_options {
  int ordinal = 0;                         ///< N of its name `host:N`
  std::optional<host_jitter> jitter{};     ///< none: no delays
  std::shared_ptr<fault_script> faults{};  ///< none: no scripted failures
};

/// Opens an embedded host device: streams are threads, results are real, work is asynchronous.
[[nodiscard]] std::shared_ptr<device> open_host_device(const host_device_options& options = {});

}  // namespace sluice
