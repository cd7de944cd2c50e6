// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/device_runtime.hpp>

#include <atomic>
#include <cstddef>

namespace sluice::test {

/// Follows the launch of one thread through its steps and stops it at one of them.
class followed_launch {
 public:
  /// Launches of `runtime` can be followed, by recorders made from now on.
  static void allow(device_runtime& runtime) {
    detail::runtime_core::of(runtime)->at_each_step([](detail::launch_step step) {
      if (current() != nullptr) current()->arrive(step);
    });
  }

  followed_launch() = default;
  followed_launch(const followed_launch&) = delete;
  followed_launch& operator=(const followed_launch&) = delete;

  /// As long as it lives, the launches of this thread are those that are followed.
  class here {
   public:
    explicit here(followed_launch& launch) noexcept { current() = &launch; }
    here(const here&) = delete;
    here& operator=(const here&) = delete;
    ~here() { current() = nullptr; }
  };

  /// Stops at the `number`-th step, counted from 0, until `go_on`. Before the launch.
  void stop_at(std::size_t number) noexcept { stop_ = number; }
  /// Stops each time that the launch is about to wait for a lease, until `go_on`.
  void stop_when_blocked(bool stops) noexcept { stops_when_blocked_.store(stops); }
  [[nodiscard]] bool stopped() const noexcept { return stops_.load() > passed_.load(); }
  void await_stopped() const {
    await([this] { return stopped(); });
  }
  /// Where it stands.
  [[nodiscard]] detail::launch_step stopped_at() const noexcept { return stopped_at_; }
  void go_on() noexcept { passed_.fetch_add(1); }

  /// Whether it has gone to wait for a lease.
  [[nodiscard]] bool blocked() const noexcept { return blocked_.load(); }
  /// Whether it has gone to the turnstile.
  [[nodiscard]] bool starved() const noexcept { return starved_.load(); }
  /// How many steps it has taken.
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
