// SPDX-License-Identifier: Apache-2.0
// The main function of all test programs: GoogleTest's, with the seed of this process on the first
// line.
#include "tests/support/crash_report.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace {

/// Keeps what ctest asks of this program from the programs that its tests start.
class child_environment final : public ::testing::Environment {
 public:
  void SetUp() override {
    for (const auto* const name : {"GTEST_BRIEF", "GTEST_FILTER", "GTEST_OUTPUT",
                                   "GTEST_SHARD_INDEX", "GTEST_TOTAL_SHARDS"}) {
      ::unsetenv(name);
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new child_environment);
  sluice::test::report_crashes();
  // Child processes run the program anew: a forked copy would lack the stream threads.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // A list of tests is read by programs.
  if (!GTEST_FLAG_GET(list_tests)) {
    // Child processes draw what their parent would.
    const auto seed = std::to_string(sluice::test::process_seed());
    ::setenv("SLUICE_TEST_SEED", seed.c_str(), 1);
  }
  return RUN_ALL_TESTS();
}
