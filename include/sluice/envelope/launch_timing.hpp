// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/recycled_memory.hpp>
#include <sluice/export.hpp>
#include <sluice/runtime/device_runtime.hpp>

#include <memory>

namespace sluice::detail {

class timestamp_reader;
struct timed_launch;

/// The timestamps of one launch. Destroying the object before the launch has completed discards
/// them.
class SLUICE_EXPORT launch_timing {
 public:
  launch_timing() noexcept;
  explicit launch_timing(std::unique_ptr<timed_launch> launch) noexcept;
  launch_timing(launch_timing&& other) noexcept;
  launch_timing& operator=(launch_timing&& other) noexcept;
  ~launch_timing();

  /// Takes a pair of timestamps, if there is a free one. Before `begin`. May call the driver, so it
  /// must not be called under leases.
  void reserve() noexcept {
    if (launch_) take_pair();
  }
  /// States what is to be known of the launch when its hook `after_timestamps` is called. Called by
  /// the launching thread, before `begin`.
  void describe(const kernel_info& info) noexcept {
    if (launch_) set_info(info);
  }
  /// Stamps the stream before and after the closure. Called by the launching thread.
  void begin(stream_ref stream) noexcept {
    if (launch_) record_begin(stream);
  }
  void end(stream_ref stream) noexcept {
    if (launch_) record_end(stream);
  }
  /// The same for a launch without timestamps of its own that is enqueued together with `first`,
  /// which has been stamped: it has those of `first`.
  ///@{
  void begin_with(const launch_timing& first) noexcept;
  void end_with(const launch_timing& first) noexcept;
  ///@}
  /// The launch has no timestamps.
  void forget() noexcept;
  /// Passes a launch with `info.timed`, which has been described, to the timestamp thread, which
  /// calls `after_timestamps`.
  ///
  /// Call it after `after_complete`. Without timestamps it calls `after_timestamps` itself.
  void complete(std::shared_ptr<kernel_trace> trace, const kernel_info& info,
                const kernel_times& times) noexcept;

 private:
  void take_pair() noexcept;
  void set_info(const kernel_info& info) noexcept;
  void record_begin(stream_ref stream) noexcept;
  void record_end(stream_ref stream) noexcept;

  std::unique_ptr<timed_launch> launch_;
};

/// The thread that reads the timestamps of a service's launches, with a bounded pool of timestamps.
///
/// The thread starts with the first launch whose trace wants timestamps.
class SLUICE_EXPORT launch_timestamps {
 public:
  explicit launch_timestamps(device_runtime& runtime);
  launch_timestamps(const launch_timestamps&) = delete;
  launch_timestamps& operator=(const launch_timestamps&) = delete;
  /// Delivers the timestamps of all completed launches.
  ~launch_timestamps();

  /// Prepares the timing of a launch, in a block of `memory`. Returns an empty object if there is
  /// no memory or no thread for it. Callable from any thread that may take blocks of `memory`.
  [[nodiscard]] launch_timing prepare(recycled_memory& memory) noexcept;

 private:
  std::shared_ptr<timestamp_reader> reader_;
};

}  // namespace sluice::detail
