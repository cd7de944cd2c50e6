// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/runtime/device_runtime.hpp>

#include <memory>

namespace sluice::detail {

class timestamp_reader;
struct timed_launch;

/// The timestamps of one launch. Belongs to the launch until it has completed. Destroying it before
/// drops them, for a launch that is not made.
class launch_timing {
 public:
  launch_timing() noexcept;
  explicit launch_timing(std::unique_ptr<timed_launch> of) noexcept;
  launch_timing(launch_timing&& other) noexcept;
  launch_timing& operator=(launch_timing&& other) noexcept;
  ~launch_timing();

  /// Before and after the launch's work is queued on `stream`, by the launching thread.
  void begin(stream_ref stream) noexcept {
    if (launch_) record_begin(stream);
  }
  void end(stream_ref stream) noexcept {
    if (launch_) record_end(stream);
  }
  /// After `after_complete`, for a launch with `info.timed`: has the thread that reads timestamps
  /// call `after_timestamps`. Without timestamps it calls that itself.
  void complete(kernel_trace& trace, const kernel_info& info, const kernel_times& known) noexcept;

 private:
  void record_begin(stream_ref stream) noexcept;
  void record_end(stream_ref stream) noexcept;

  std::unique_ptr<timed_launch> launch_;
};

/// The thread that reads the timestamps of a service's launches, and a bounded pool of timestamps.
/// The thread starts with the first launch whose trace asks for timestamps.
class launch_timestamps {
 public:
  explicit launch_timestamps(device_runtime& runtime);
  launch_timestamps(const launch_timestamps&) = delete;
  launch_timestamps& operator=(const launch_timestamps&) = delete;
  /// Delivers the timestamps of all launches that have completed.
  ~launch_timestamps();

  /// Timestamps for a launch; `names` keep the strings of `info`. None if there is no memory or no
  /// thread for them.
  /// Any thread; may call the driver, so not under leases.
  [[nodiscard]] launch_timing prepare(std::shared_ptr<kernel_trace> trace, const kernel_info& info,
                                      std::shared_ptr<const void> names) noexcept;

 private:
  std::shared_ptr<timestamp_reader> reader_;
};

}  // namespace sluice::detail
