#pragma once

#include <sluice/runtime/device.hpp>

#include <array>
#include <atomic>
#include <chrono>
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

/// Says which operations of a host device fail. Thread-safe; counts operations from its making,
/// starting with 1.
class fault_script {
 public:
  /// The `nth` operation of this kind from now on fails (1 is the next one), and so do the ones
  /// after it, `count` in all. (A runtime asks twice for memory.) One fault per kind is pending at
  /// a time; a second call replaces it. 0 takes it back.
  void fail_nth(fault_target target, std::uint64_t nth, std::uint64_t count = 1) noexcept;
  /// For the device: counts one operation; true when it is to fail.
  [[nodiscard]] bool strikes(fault_target target) noexcept;

 private:
  // Relaxed everywhere: a script must not order the threads that it runs on.
  std::array<std::atomic<std::int64_t>, 4> countdown_{};  // to the end of the fault
  std::array<std::atomic<std::int64_t>, 4> count_{};
};

/// A random delay before each task, to shake out orderings. Results never depend on it.
struct host_jitter {
  std::uint64_t seed = 0;
  std::chrono::microseconds longest{200};
};

struct host_device_options {
  int ordinal = 0;
  std::optional<host_jitter> jitter{};
  std::shared_ptr<fault_script> faults{};
};

/// Opens an embedded host device: streams are threads, results are real, work is asynchronous.
[[nodiscard]] std::shared_ptr<device> open_host_device(const host_device_options& options = {});

}  // namespace sluice
