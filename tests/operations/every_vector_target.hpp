// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/vector_targets.hpp"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstdint>

namespace sluice::test {

/// Calls `check` once for each target of the loops of the host device that this processor has. No
/// other thread runs loops meanwhile.
template <class Check>
void for_each_vector_target(const Check& check) {
  const auto choose = [](std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  choose(0);  // all that the processor has
  std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS;
  EXPECT_NE(rest, 0);
  for (; rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    choose(target);
    check();
  }
  choose(0);
}

}  // namespace sluice::test
