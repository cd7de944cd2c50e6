// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/algorithm_policy.hpp>
#include <sluice/envelope/completion_engine.hpp>
#include <sluice/envelope/launch_timing.hpp>
#include <sluice/envelope/planner.hpp>
#include <sluice/envelope/request_limits.hpp>
#include <sluice/envelope/timer.hpp>
#include <sluice/envelope/wait_policy.hpp>
#include <sluice/runtime/device_runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace sluice {

/// Options of a `device_service`. They cannot be copied, because `runtime` may own a memory
/// resource.
struct device_service_options {
  runtime_options runtime{};                                     ///< options of the runtime
  completion_strategy completion = completion_strategy::polled;  ///< how completion is detected
  /// The largest number of launches in flight on a lane. Further requests wait in the lane's actor.
  /// 0: 128, or 32 with `host_function`.
  ///
  /// The limit keeps launches of a stalled stream from blocking in the driver, which can also block
  /// other threads. One stream of an H200 queued 1020 kernels (CUDA 13.0) and only 56 host
  /// functions under compute-sanitizer. One launch may consist of several kernels.
  std::size_t max_in_flight = 0;
  /// The largest number of device commands in flight on a lane. The launch that reaches it is still
  /// admitted; further requests wait in the lane's actor. 0: 800.
  ///
  /// The driver's queue of a stream takes about a thousand commands. The default leaves room for
  /// one more launch with the most commands, a host transfer. Under compute-sanitizer, whose queue
  /// is full at 255, use 200.
  std::size_t max_commands = 0;
  /// The number of lanes of each library actor and of the program actor, each with a thread of its
  /// own. At most 1024. 0: one, and up to `max_lanes_on_demand` while several senders keep it busy,
  /// or a second one while a GPU is behind with the launches of a sender. The device actor has one
  /// lane.
  std::size_t lanes_per_actor = 0;
  /// The most lanes of an actor if `lanes_per_actor` is 0. At most 1024. 0: on a GPU one for four
  /// processors of the process, at least one and at most four; on a host device one for each
  /// processor, at most eight.
  std::size_t max_lanes_on_demand = 0;
  /// The number of further lanes of each of these actors, which take only requests with
  /// `request_priority::high` and what their senders send while these wait. Their streams have
  /// `stream_priority::high`. They are opened on demand. At most 1024. 0: such requests share the
  /// other lanes.
  std::size_t high_priority_lanes = 1;
  /// How long a lane that was opened on demand has no work before its memory is given back.
  std::chrono::nanoseconds idle_lane_timeout = std::chrono::seconds(10);
  /// The number of threads that complete launches, at most `completion_engine::most_threads`. Each
  /// stream, and therefore each lane, has one of them. 0: two if an actor may have four lanes,
  /// those of high priority included, else one.
  std::size_t completion_threads = 0;
  /// Which algorithms of libraries the plans of requests take.
  algorithm_policy algorithms = algorithm_policy::fastest;
  request_limits limits{};  ///< of one request, unless the options of an executor state others
  wait_policy waiting = wait_policy::balanced;  ///< how the threads of the service wait
  /// The clock of deadlines; nullptr: a `steady_timer`. Tests pass a clock of their own.
  std::shared_ptr<sluice::timer> timer{};
};

/// A device runtime together with the completion engine of its launches.
///
///     const auto service = std::make_shared<device_service>("auto");
///     lane blas{service};
///     lane fft{service};
///
/// Lanes share the service. `runtime` and `engine` are thread-safe.
class device_service {
 public:
  /// A service on the device called `device_name`.
  /// @throws error `invalid_argument` if there is no such device
  /// @throws error `invalid_argument` if an option is no enumerator, or there are too many lanes or
  /// threads
  /// @throws error `device_lost` if the device is lost
  /// @throws error `library_failure` if a call of the driver fails
  /// @throws std::system_error if a thread cannot be started
  /// @throws std::bad_alloc if there is no memory for the service
  explicit device_service(std::string_view device_name, device_service_options options = {})
      : device_service(open_device(device_name), std::move(options)) {}
  /// A service on a device that is already open.
  /// @throws error `invalid_argument` if an option is no enumerator, or there are too many lanes or
  /// threads
  /// @throws error `device_lost` if the device is lost
  /// @throws error `library_failure` if a call of the driver fails
  /// @throws std::system_error if a thread cannot be started
  /// @throws std::bad_alloc if there is no memory for the service
  explicit device_service(std::shared_ptr<sluice::device> device,
                          device_service_options options = {})
      : runtime_(device, std::move(options.runtime)),
        timer_(options.timer ? std::move(options.timer) : std::make_shared<steady_timer>(device)),
        planner_(std::move(device)),
        timestamps_(runtime_),
        lanes_per_actor_(lanes_of(options, runtime_.shared_device()->id().kind)),
        engine_(runtime_, options.completion, options.waiting, threads_of(options)),
        policy_(options.waiting),
        max_in_flight_(options.max_in_flight != 0 ? options.max_in_flight
                       : options.completion == completion_strategy::host_function ? 32
                                                                                  : 128),
        max_commands_(options.max_commands != 0 ? options.max_commands : 800),
        open_lanes_per_actor_(options.lanes_per_actor == 0 ? 1 : lanes_per_actor_),
        high_priority_lanes_(high_priority_lanes_of(options)),
        idle_lane_timeout_(options.idle_lane_timeout),
        algorithms_(checked_policy(options.algorithms)),
        limits_(options.limits) {
    detail::spinners::of_process().service_begins(policy_);
  }
  device_service(const device_service&) = delete;
  device_service& operator=(const device_service&) = delete;
  /// Refuses new work and waits for launches in flight, like `device_runtime::shut_down`. Launches
  /// that do not finish in time are answered with `device_lost`.
  ~device_service() {
    detail::spinners::of_process().service_ends(policy_);
    (void)runtime_.shut_down();
  }

  /// The runtime. Valid as long as the service.
  [[nodiscard]] device_runtime& runtime() noexcept { return runtime_; }
  /// The completion engine of all launches. Valid as long as the service.
  [[nodiscard]] completion_engine& engine() noexcept { return engine_; }
  /// The thread on which libraries make plans. Valid as long as the service.
  [[nodiscard]] sluice::planner& planner() noexcept { return planner_; }
  /// The clock of deadlines. Valid as long as the service.
  [[nodiscard]] sluice::timer& timer() noexcept { return *timer_; }
  /// How the threads of the service wait.
  [[nodiscard]] wait_policy waiting() const noexcept { return policy_; }
  /// The device of the runtime. Valid as long as the service.
  [[nodiscard]] sluice::device& device() const noexcept { return runtime_.device(); }
  /// The limit of launches in flight for a lane without a limit of its own.
  [[nodiscard]] std::size_t max_in_flight() const noexcept { return max_in_flight_; }
  /// The limit of device commands in flight for a lane without a limit of its own.
  [[nodiscard]] std::size_t max_commands() const noexcept { return max_commands_; }
  /// The most lanes of each library actor and of the program actor, without those for requests of
  /// high priority.
  [[nodiscard]] std::size_t lanes_per_actor() const noexcept { return lanes_per_actor_; }
  /// The number of them that an actor has from the start. The others are opened on demand.
  [[nodiscard]] std::size_t open_lanes_per_actor() const noexcept { return open_lanes_per_actor_; }
  /// The number of further lanes of each, for requests of high priority.
  [[nodiscard]] std::size_t high_priority_lanes() const noexcept { return high_priority_lanes_; }
  /// How long a lane that was opened on demand has no work before its memory is given back.
  [[nodiscard]] std::chrono::nanoseconds idle_lane_timeout() const noexcept {
    return idle_lane_timeout_;
  }
  /// Which algorithms of libraries the plans of requests take.
  [[nodiscard]] algorithm_policy algorithms() const noexcept { return algorithms_; }
  /// The limits of one request, as the options state them.
  [[nodiscard]] const request_limits& limits() const noexcept { return limits_; }

 private:
  friend class kernel_envelope;
  static constexpr std::size_t most_lanes = 1024;
  [[nodiscard]] static std::size_t checked_count(const char* name, std::size_t count,
                                                 std::size_t limit) {
    if (count <= limit) return count;
    throw error(errc::invalid_argument, std::string(name) + ": is " + std::to_string(count) +
                                            ", but at most " + std::to_string(limit) +
                                            " are possible");
  }
  [[nodiscard]] static algorithm_policy checked_policy(algorithm_policy policy) {
    if (policy <= algorithm_policy::proposed) return policy;
    throw error(errc::invalid_argument, "algorithms: is no algorithm_policy");
  }
  [[nodiscard]] static std::size_t lanes_of(const device_service_options& options,
                                            device_kind kind) {
    if (options.lanes_per_actor != 0) {
      return checked_count("lanes_per_actor", options.lanes_per_actor, most_lanes);
    }
    if (options.max_lanes_on_demand != 0) {
      return checked_count("max_lanes_on_demand", options.max_lanes_on_demand, most_lanes);
    }
    const std::size_t processors = std::thread::hardware_concurrency();
    return kind == device_kind::host ? std::clamp<std::size_t>(processors, 1, 8)
                                     : std::clamp<std::size_t>(processors / 4, 1, 4);
  }
  [[nodiscard]] static std::size_t high_priority_lanes_of(const device_service_options& options) {
    return checked_count("high_priority_lanes", options.high_priority_lanes, most_lanes);
  }
  [[nodiscard]] std::size_t threads_of(const device_service_options& options) const {
    if (options.completion_threads != 0) {
      return checked_count("completion_threads", options.completion_threads,
                           completion_engine::most_threads);
    }
    return lanes_per_actor_ + high_priority_lanes_of(options) < 4 ? 1 : 2;
  }

  device_runtime runtime_;
  std::shared_ptr<sluice::timer> timer_;
  sluice::planner planner_;
  detail::launch_timestamps timestamps_;
  std::size_t lanes_per_actor_;
  completion_engine
      engine_;  // destroyed before the runtime, after all pending launches have been answered
  wait_policy policy_;
  std::size_t max_in_flight_;
  std::size_t max_commands_;
  std::size_t open_lanes_per_actor_;
  std::size_t high_priority_lanes_;
  std::chrono::nanoseconds idle_lane_timeout_;
  algorithm_policy algorithms_;
  request_limits limits_;
};

}  // namespace sluice
