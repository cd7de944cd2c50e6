// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace sluice::test {

/// Forks and exits the child with the result of `function`. Returns how the child ended: "exited
/// with 0". An alarm ends a child that hangs.
template <class Function>
std::string end_of_child(Function function) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    (void)::alarm(20);
    std::exit(function());
  }
  if (child < 0) return "not forked";
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return "exited with " + std::to_string(WEXITSTATUS(status));
  return "ended by signal " + std::to_string(WTERMSIG(status));
}

/// Prints how the child that runs `function` ended, on standard error.
template <class Function>
void report_end_of_child(Function function) {
  std::fprintf(stderr, "the child %s\n", end_of_child(function).c_str());
}

/// Ends a child that EXPECT_EXIT runs, with 0 unless an expectation has failed.
[[noreturn]] inline void end_child() {
  std::exit(::testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace sluice::test
