// SPDX-License-Identifier: Apache-2.0
// The kernel's count of processes that it has killed.
#include "service/front/oom_kills.hpp"

#include <gtest/gtest.h>

namespace sluice::service {
namespace {

TEST(oom_kills, are_counted_by_the_kernel) {
  EXPECT_EQ(oom_kills_in("pgfault 1\noom_kill 42\nnuma_hit 3\n"), 42U);
  EXPECT_EQ(oom_kills_in("oom_kill 7"), 7U);
  EXPECT_EQ(oom_kills_in("drop_oom_kill 7\noom_killed 8\n"), 0U);
  EXPECT_EQ(oom_kills_in("oom_kill x\n"), 0U);
  EXPECT_EQ(oom_kills_in(""), 0U);
  const auto before = count_oom_kills();
  EXPECT_GE(count_oom_kills(), before);
}

}  // namespace
}  // namespace sluice::service
