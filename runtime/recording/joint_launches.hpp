// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/launch_errors.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <cstddef>
#include <optional>

namespace sluice::detail {

/// Several launches of one stream under one recorder: they are preflighted together, and each takes
/// a ticket of its own. To later launches they are as if made one after the other.
///
///     joint_launches::begin_next(recorder);
///     recorder.use(...);                       // of launch 0
///     joint_launches::begin_next(recorder);
///     recorder.use(...);                       // of launch 1
///     recorder.preflight();
///     ... enqueue launch 0 ...
///     joint_launches::submit(recorder, 0, {});
///     ... enqueue launch 1 ...
///     joint_launches::submit(recorder, 1, {});
///     joint_launches::publish(recorder);
///
/// The launches are in no order among themselves: none writes bytes that another one uses. They may
/// use the same blocks. A launch has at most `max_uses` uses.
class joint_launches {
 public:
  static constexpr std::size_t max_uses = 16;

  /// Prepares the recorder for about `launches` launches with `uses` uses in all.
  /// @throws std::bad_alloc if there is no memory
  static void expect(launch_recorder& recorder, std::size_t launches, std::size_t uses);
  /// The uses that are registered from here on belong to the next launch.
  /// @throws std::bad_alloc if there is no memory
  static void begin_next(launch_recorder& recorder);
  /// Whether launch `i` uses the block because of which preflight has been refused. False for all
  /// launches if no block is the reason.
  [[nodiscard]] static bool is_refused(const launch_recorder& recorder, std::size_t i) noexcept;
  /// States the error word of launch `i`, before it takes its ticket. `errors` loses the word to
  /// the timeline if that succeeds.
  static void find_errors(launch_recorder& recorder, std::size_t i,
                          launch_errors_owner& errors) noexcept;
  /// Takes the ticket of launch `i`, whose work was enqueued last, after preflight. `failure`
  /// states that it has failed.
  /// @throws error as `timeline::submit`; the work has then ended, or the device is lost
  static std::uint64_t submit(launch_recorder& recorder, std::size_t i,
                              const std::optional<error>& failure);
  /// Takes the tickets of all launches, whose work has been enqueued together. Returns the first
  /// one. Not for devices that report the failure of single tasks.
  /// @throws error as `timeline::submit`; the work has then ended, or the device is lost
  static std::uint64_t submit_all(launch_recorder& recorder, const std::optional<error>& failure);
  /// States that nothing has been enqueued for launch `i`, which is not published.
  static void cancel(launch_recorder& recorder, std::size_t i) noexcept;
  /// Publishes the launches that have taken tickets, and returns the leases. Every launch has been
  /// submitted or cancelled.
  static void publish(launch_recorder& recorder) noexcept;
};

}  // namespace sluice::detail
