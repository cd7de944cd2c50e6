// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/sanitizers.hpp"

#include <sys/prctl.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <execinfo.h>
#include <string_view>
#include <unistd.h>

namespace sluice::test {

/// Makes a segmentation fault print the thread's name and its call stack before the process ends.
/// The sanitizers do this themselves.
inline void report_crashes() {
#if !defined(SLUICE_ADDRESS_SANITIZER) && !defined(SLUICE_THREAD_SANITIZER)
  std::array<void*, 64> frames{};
  (void)backtrace(frames.data(), 1);  // loads its library now, not in the handler
  // On the main thread the handler has a stack of its own; other threads use theirs.
  static std::array<char, 64 * 1024> stack;
  stack_t alternate{};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  (void)sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_flags = SA_ONSTACK | SA_RESETHAND;
  action.sa_handler = [](int signal) {
    const auto say = [](std::string_view text) {
      (void)!::write(STDERR_FILENO, text.data(), text.size());
    };
    std::array<char, 16> name{};
    (void)prctl(PR_GET_NAME, name.data());
    say("segmentation fault in thread '");
    say({name.data(), strnlen(name.data(), name.size())});
    say("':\n");
    std::array<void*, 64> calls{};
    backtrace_symbols_fd(calls.data(), backtrace(calls.data(), static_cast<int>(calls.size())),
                         STDERR_FILENO);
    (void)raise(signal);
  };
  (void)sigaction(SIGSEGV, &action, nullptr);
  (void)sigaction(SIGBUS, &action, nullptr);
#endif
}

}  // namespace sluice::test
