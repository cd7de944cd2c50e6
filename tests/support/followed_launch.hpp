// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/device_runtime.hpp>

#include <atomic>
#include <cstddef>

namespace sluice::test {

/// Observes the launch of one thread and stops it at a chosen step.
class followed_launch {
 public:
  /// Makes the launches of `runtime` observable, for recorders created from now on.
  static void allow(device_runtime& runtime) {
    detail::runtime_core::of(runtime)->at_each_step([](detail::launch_step step) {
      if (current() != nullptr) current()->arrive(step);
    });
  }

  followed_launch() = default;
  followed_launch(const followed_launch&) = delete;
  followed_launch& operator=(const followed_launch&) = delete;

  /// During its lifetime, the launches of the current thread are observed.
  class here {
   public:
    explicit here(followed_launch& launch) noexcept { current() = &launch; }
    here(const here&) = delete;
    here& operator=(const here&) = delete;
    ~here() { current() = nullptr; }
  };

  /// Stops at step `number`, counted from 0, until `go_on` is called. Call it before the launch.
  void stop_at(std::size_t number) noexcept { stop_ = number; }
  /// Stops each time the launch is about to wait for a lease, until `go_on` is called.
  void stop_when_blocked(bool stops) noexcept { stops_when_blocked_.store(stops); }
  [[nodiscard]] bool stopped() const noexcept { return stops_.load() > passed_.load(); }
  void await_stopped() const {
    await([this] { return stopped(); });
  }
  /// The step at which the launch is stopped.
  [[nodiscard]] detail::launch_step stopped_at() const noexcept { return stopped_at_; }
  void go_on() noexcept { passed_.fetch_add(1); }

  /// Whether the launch has waited for a lease.
  [[nodiscard]] bool blocked() const noexcept { return blocked_.load(); }
  /// Whether the launch has entered the turnstile.
  [[nodiscard]] bool starved() const noexcept { return starved_.load(); }
  /// The number of steps so far.
  [[nodiscard]] std::size_t steps() const noexcept { return steps_.load(); }

 private:
  static followed_launch*& current() noexcept {
    thread_local followed_launch* launch = nullptr;
    return launch;
  }

  void arrive(detail::launch_step step) {
    const bool blocked = step == detail::launch_step::blocked;
    if (blocked) blocked_.store(true);
    if (step == detail::launch_step::starved) starved_.store(true);
    if (steps_.fetch_add(1) != stop_ && !(blocked && stops_when_blocked_.load())) return;
    stopped_at_ = step;
    const auto stop = stops_.fetch_add(1);
    await([&] { return passed_.load() > stop; });
  }

  std::size_t stop_ = ~std::size_t{0};
  detail::launch_step stopped_at_{};
  std::atomic<bool> stops_when_blocked_{false};
  std::atomic<std::size_t> stops_{0};
  std::atomic<std::size_t> passed_{0};
  std::atomic<bool> blocked_{false};
  std::atomic<bool> starved_{false};
  std::atomic<std::size_t> steps_{0};
};

}  // namespace sluice::test
