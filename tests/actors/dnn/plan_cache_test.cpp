// SPDX-License-Identifier: Apache-2.0
#include "actors/plan_cache.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

namespace {

using cache = sluice::actors::plan_cache<int, int>;

std::shared_ptr<const int> plan(int value) {
  return std::make_shared<const int>(value);
}

TEST(plan_cache, finds_what_was_kept) {
  cache plans(2);
  EXPECT_EQ(plans.find(1), nullptr);
  plans.insert(1, plan(10));
  EXPECT_EQ(*plans.find(1), 10);
  plans.insert(1, plan(11));
  EXPECT_EQ(*plans.find(1), 11);
  EXPECT_EQ(plans.size(), 1u);
}

TEST(plan_cache, pushes_out_what_was_used_the_longest_ago) {
  cache plans(2);
  plans.insert(1, plan(10));
  plans.insert(2, plan(20));
  EXPECT_NE(plans.find(1), nullptr);
  plans.insert(3, plan(30));
  EXPECT_EQ(plans.find(2), nullptr);
  EXPECT_NE(plans.find(1), nullptr);
  EXPECT_NE(plans.find(3), nullptr);
  EXPECT_EQ(plans.size(), 2u);
}

TEST(plan_cache, a_plan_in_use_outlives_its_place) {
  cache plans(1);
  plans.insert(1, plan(10));
  const auto held = plans.find(1);
  const std::weak_ptr<const int> watched = held;
  plans.insert(2, plan(20));
  EXPECT_EQ(plans.find(1), nullptr);
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(*held, 10);
}

TEST(plan_cache, makes_a_plan_once) {
  cache plans(2);
  int made = 0;
  const auto make = [&made] {
    return plan(++made);
  };
  EXPECT_EQ(*plans.find_or_make(1, make), 1);
  EXPECT_EQ(*plans.find_or_make(1, make), 1);
  EXPECT_EQ(made, 1);
}

TEST(plan_cache, a_plan_that_cannot_be_made_changes_nothing) {
  cache plans(1);
  plans.insert(1, plan(10));
  const auto fail = []() -> std::shared_ptr<const int> {
    throw std::runtime_error("no");
  };
  EXPECT_THROW((void)plans.find_or_make(2, fail), std::runtime_error);
  EXPECT_EQ(*plans.find(1), 10);
  EXPECT_EQ(plans.size(), 1u);
}

}  // namespace
