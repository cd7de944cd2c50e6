// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/sanitizers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace sluice::test {

/// Skips the test unless the program is optimized and not instrumented, and valgrind is installed.
#define SLUICE_REQUIRE_INSTRUCTION_COUNT()                                       \
  if (!sluice::test::optimized) {                                                \
    GTEST_SKIP() << "this program was not optimized, or is instrumented itself"; \
  }                                                                              \
  if (std::system("valgrind --version >/dev/null 2>&1") != 0) {                  \
    GTEST_SKIP() << "valgrind is not installed";                                 \
  }                                                                              \
  static_assert(true)

#if defined(__OPTIMIZE__) && !defined(SLUICE_ADDRESS_SANITIZER) && !defined(SLUICE_THREAD_SANITIZER)
inline constexpr bool optimized = true;
#else
inline constexpr bool optimized = false;
#endif

/// Counts the instructions of this program when it only runs the test `name`, with the environment
/// that it inherits. With `function`, a pattern, counts only those of its calls. Returns nothing if
/// the machine cannot count them.
inline std::optional<std::uint64_t> count_instructions(const std::string& name,
                                                       const std::string& function = {}) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto only = function.empty() ? function : " --toggle-collect='" + function + "'";
  const auto command = "valgrind --tool=callgrind --callgrind-out-file=/dev/null" + only + " '" +
                       program + "' --gtest_filter=" + name + " 2>&1";
  std::optional<std::uint64_t> counted;
  std::string said;
  if (auto* const output = ::popen(command.c_str(), "r")) {
    std::array<char, 1024> line{};
    while (std::fgets(line.data(), line.size(), output) != nullptr) {
      said += line.data();
      unsigned long long count = 0;
      if (std::sscanf(line.data(), "==%*d== Collected : %llu", &count) == 1) counted = count;
    }
    if (::pclose(output) != 0) counted.reset();
  }
  EXPECT_TRUE(counted) << said;
  return counted;
}

}  // namespace sluice::test
