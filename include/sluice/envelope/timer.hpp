// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace sluice {

/// A clock that calls functions at given times, for deadlines. Thread-safe.
///
///     service->timer().call_at(service->timer().now() + 5ms, [wake] { wake(); });
///
/// Tests derive a clock of their own from it; see `device_service_options::timer`.
class timer {
 public:
  /// A time on the timer's clock.
  using time_point = std::chrono::steady_clock::time_point;

  timer() = default;
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;
  virtual ~timer() = default;

  /// The present time.
  [[nodiscard]] virtual time_point now() const noexcept = 0;
  /// Names a call of `call_at`.
  struct ticket {
    time_point when{};         ///< the time of the call
    std::uint64_t number = 0;  ///< unique among the calls of one timer; 0: none
  };

  /// Calls `expired` once, on any thread, when `now()` has reached `time`.
  ///
  /// `expired` must not throw and must not block. It must own everything that it uses. It is not
  /// called after the timer has been destroyed.
  /// @throws std::bad_alloc if there is no memory
  /// @throws std::system_error if a thread cannot be started
  virtual ticket call_at(time_point time, std::function<void()> expired) = 0;
  /// Drops a function that has not been called yet. A call that has begun goes on.
  virtual void cancel(const ticket& call) noexcept = 0;
};

namespace detail {

/// `std::chrono::duration_cast`, but for durations that nanoseconds cannot represent: they become
/// the longest or the shortest one.
template <class Rep, class Period>
[[nodiscard]] constexpr std::chrono::nanoseconds saturated_cast(
    std::chrono::duration<Rep, Period> value) noexcept {
  using std::chrono::nanoseconds;
  const std::chrono::duration<double, std::nano> about(value);
  if (!(about < nanoseconds::max())) return nanoseconds::max();  // or not a number
  if (about <= nanoseconds::min()) return nanoseconds::min();
  if constexpr (std::chrono::treat_as_floating_point_v<Rep>) {
    return nanoseconds(static_cast<nanoseconds::rep>(about.count()));
  } else {
    return std::chrono::duration_cast<nanoseconds>(value);
  }
}

}  // namespace detail

/// The time of the steady clock at which `limit` will have passed, for `request_options::deadline`.
/// The result is at most the last time of the clock: the longest duration of any unit means no
/// limit. A negative limit has passed now.
[[nodiscard]] SLUICE_EXPORT timer::time_point deadline_after(
    std::chrono::nanoseconds limit) noexcept;
template <class Rep, class Period>
[[nodiscard]] timer::time_point deadline_after(std::chrono::duration<Rep, Period> limit) noexcept {
  return deadline_after(detail::saturated_cast(limit));
}

/// The steady clock of the system. A thread, which starts with the first call of `call_at`, calls
/// the functions.
class SLUICE_EXPORT steady_timer final : public timer {
 public:
  /// A timer for the requests of `device`.
  explicit steady_timer(std::shared_ptr<sluice::device> device);
  /// Drops the functions that have not been called, and waits for the one that runs, except on the
  /// timer's thread.
  ~steady_timer() override;

  [[nodiscard]] time_point now() const noexcept override {
    return std::chrono::steady_clock::now();
  }
  /// @throws error `device_lost` in a child of `fork()`
  ticket call_at(time_point time, std::function<void()> expired) override;
  void cancel(const ticket& call) noexcept override;

 private:
  class state;
  std::shared_ptr<state> state_;
};

}  // namespace sluice
