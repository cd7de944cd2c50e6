// SPDX-License-Identifier: Apache-2.0
#include <sluice/version.hpp>

#include <gtest/gtest.h>

#include <string>

namespace sluice::test {
namespace {

TEST(version, is_the_project_s) {
  EXPECT_EQ(version, SLUICE_PROJECT_VERSION);
}

TEST(version, is_made_of_its_numbers) {
  EXPECT_EQ(version, std::to_string(SLUICE_VERSION_MAJOR) + '.' +
                         std::to_string(SLUICE_VERSION_MINOR) + '.' +
                         std::to_string(SLUICE_VERSION_PATCH));
}

}  // namespace
}  // namespace sluice::test
