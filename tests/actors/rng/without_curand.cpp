#include <gtest/gtest.h>

TEST(against_curand, needs_the_toolkit) {
  GTEST_SKIP() << "built without the CUDA toolkit";
}
