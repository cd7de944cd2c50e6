// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

namespace sluice::test {

/// The seed of all random inputs of this process: SLUICE_TEST_SEED, or a new random number. The
/// first call prints it, so that a failure can be repeated.
inline std::uint64_t process_seed() {
  static const std::uint64_t seed = [] {
    std::uint64_t chosen = 0;
    if (const char* text = std::getenv("SLUICE_TEST_SEED"); text != nullptr && *text != '\0') {
      char* end = nullptr;
      chosen = std::strtoull(text, &end, 0);
      if (*end != '\0') {
        std::fprintf(stderr, "SLUICE_TEST_SEED=%s is not a number\n", text);
        std::exit(2);
      }
    } else {
      std::random_device entropy;
      chosen = (std::uint64_t{entropy()} << 32) | entropy();
    }
    std::printf("SLUICE_TEST_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    std::fflush(stdout);
    return chosen;
  }();
  return seed;
}

/// A generator that depends only on the process's seed, the current test and the number of earlier
/// calls in this test.
///
/// A test therefore draws the same numbers alone and in a run of all tests. Only for the main
/// thread of the test.
inline std::mt19937_64 make_generator() {
  std::string test = "no test";
  if (const auto* info = ::testing::UnitTest::GetInstance()->current_test_info()) {
    test = std::string(info->test_suite_name()) + '.' + info->name();
  }
  static std::string previous;
  static std::uint64_t calls = 0;
  calls = test == previous ? calls + 1 : 0;
  previous = test;

  // FNV-1a, because std::hash differs between standard libraries.
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : test) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  const std::uint64_t seed = process_seed();
  std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                         static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32),
                         static_cast<std::uint32_t>(calls)};
  return std::mt19937_64(sequence);
}

}  // namespace sluice::test
