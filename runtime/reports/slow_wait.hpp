// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace sluice::detail {

/// Reports what a shutdown waits for, once, when the wait has taken several seconds. Call `look` in
/// each round of the wait.
class slow_wait {
 public:
  slow_wait() noexcept;

  /// `describe` returns the text of the report. It is called at most once.
  template <class Describe>
  void look(Describe describe) noexcept {
    if (said_ || std::chrono::steady_clock::now() < due_) return;
    said_ = true;
    try {
      say(describe());
    } catch (...) {
      say("a shutdown takes long");
    }
  }

  /// For tests: how long a wait takes before it is reported.
  static void set_patience(std::chrono::milliseconds patience) noexcept;

 private:
  static void say(std::string_view text) noexcept;

  std::chrono::steady_clock::time_point due_;
  bool said_ = false;
};

}  // namespace sluice::detail
