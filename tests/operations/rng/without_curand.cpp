// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

TEST(against_curand, needs_the_toolkit) {
  GTEST_SKIP() << "built without the CUDA toolkit";
}
