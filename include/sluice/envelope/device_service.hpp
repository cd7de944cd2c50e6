// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/completion_engine.hpp>
#include <sluice/envelope/launch_timing.hpp>
#include <sluice/runtime/device_runtime.hpp>

#include <cstddef>
#include <memory>
#include <string_view>

namespace sluice {

/// How a `device_service` is made.
struct device_service_options {
  runtime_options runtime{};  ///< options of the runtime
  completion_strategy completion =
      completion_strategy::polled;  ///< how the end of a launch becomes known
  /// Launches that a lane has in flight at most; what comes on top waits in its actor. 0: 128, and
  /// 32 with `host_function`.
  ///
  /// CUDA queues 1020 kernels of a stream that does not get on (an H200, CUDA 13.0), and far fewer
  /// host functions (56 were seen under compute-sanitizer); the next call blocks until it does, and
  /// others who need the driver may with it. A launch may be several kernels.
  std::size_t most_in_flight = 0;
};

/// A device's runtime together with the completion engine of its launches: what lanes stand on.
/// Lanes share it; when the last owner is gone it drains (see `device_runtime`) and ends.
class device_service {
 public:
  /// @throws error as `open_device` and `device_runtime`
  explicit device_service(std::string_view device_name, device_service_options options = {})
      : device_service(open_device(device_name), std::move(options)) {}
  /// The same on a device that is open already. @throws error as `device_runtime`
  explicit device_service(std::shared_ptr<sluice::device> device,
                          device_service_options options = {})
      : runtime_(std::move(device), std::move(options.runtime)),
        timestamps_(runtime_),
        engine_(runtime_, options.completion),
        most_in_flight_(options.most_in_flight != 0 ? options.most_in_flight
                        : options.completion == completion_strategy::host_function ? 32
                                                                                   : 128) {}
  device_service(const device_service&) = delete;
  device_service& operator=(const device_service&) = delete;
  /// Refuses new work and waits, as `device_runtime::shut_down`; what cannot finish is answered
  /// with `device_lost`.
  ~device_service() { (void)runtime_.shut_down(); }

  /// The runtime. Valid as long as the service.
  [[nodiscard]] device_runtime& runtime() noexcept { return runtime_; }
  /// The completion engine of all launches. Valid as long as the service.
  [[nodiscard]] completion_engine& engine() noexcept { return engine_; }
  /// The device of the runtime.
  [[nodiscard]] sluice::device& device() const noexcept { return runtime_.device(); }
  /// The limit of launches in flight of a lane that has no limit of its own.
  [[nodiscard]] std::size_t most_in_flight() const noexcept { return most_in_flight_; }

 private:
  friend class kernel_envelope;
  device_runtime runtime_;
  detail::launch_timestamps timestamps_;
  completion_engine engine_;  // ends before the runtime: everything pending is answered first
  std::size_t most_in_flight_;
};

}  // namespace sluice
