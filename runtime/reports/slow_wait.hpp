// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

#include <chrono>
#include <string>
#include <string_view>

namespace sluice::detail {

/// Reports once what a shutdown waits for, if the wait takes more than three seconds.
///
///     slow_wait waiting;
///     while (!done()) {
///       waiting.look([] { return "destroying the runtime: waiting for ..."; });
///       pause();
///     }
class SLUICE_EXPORT slow_wait {
 public:
  slow_wait() noexcept;

  /// Checks the time; called in each round of the wait. `describe` returns the text of the report,
  /// and is called at most once.
  template <class Describe>
  void look(Describe describe) noexcept {
    if (said_ || std::chrono::steady_clock::now() < due_time_) return;
    said_ = true;
    try {
      say(describe());
    } catch (...) {
      say("a shutdown is taking long");
    }
  }

  /// Sets the time after which a wait is reported. For tests.
  static void set_patience(std::chrono::milliseconds patience) noexcept;

 private:
  static void say(std::string_view text) noexcept;

  std::chrono::steady_clock::time_point due_time_;
  bool said_ = false;
};

}  // namespace sluice::detail
