// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/plan_cache.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using operations::plan_cache;
using operations::plan_key;
using operations::plan_key_view;

/// Counts how often plans are asked whether they are obsolete.
class aging_plan final : public operation_plan {
 public:
  explicit aging_plan(std::size_t bytes = 1) noexcept : bytes_(bytes) {}
  std::size_t bytes() const noexcept override { return bytes_; }
  bool obsolete() const noexcept override {
    ++queries;
    return is_obsolete;
  }
  void grow(std::size_t bytes) noexcept { bytes_ += bytes; }
  bool is_obsolete = false;
  static inline std::size_t queries = 0;

 private:
  std::size_t bytes_;
};

class plan_cache_test : public ::testing::Test {
 protected:
  std::shared_ptr<aging_plan> insert(int number) {
    auto plan = std::make_shared<aging_plan>();
    cache().insert(plan_key{nullptr, std::to_string(number)}, {plan, {}});
    return plan;
  }
  bool has(int number) {
    const auto key = std::to_string(number);
    return cache().find(plan_key_view{nullptr, key}) != nullptr;
  }
  plan_cache& cache() { return cache_; }

 private:
  plan_cache cache_{std::size_t{1} << 30U};
};

TEST_F(plan_cache_test, looks_at_a_bounded_number_of_plans) {
  for (int i = 0; i < 1000; ++i) (void)insert(i);
  aging_plan::queries = 0;
  (void)insert(1000);
  EXPECT_LE(aging_plan::queries, 64U);
  EXPECT_GT(aging_plan::queries, 0U);
}

TEST_F(plan_cache_test, drops_all_obsolete_plans_in_time) {
  std::vector<std::shared_ptr<aging_plan>> plans;
  for (int i = 0; i < 1000; ++i) plans.push_back(insert(i));
  for (std::size_t i = 0; i < plans.size(); i += 2) plans[i]->is_obsolete = true;
  for (int i = 0; i < 32; ++i) cache().drop_some_obsolete();
  EXPECT_EQ(cache().size(), 500U);
  EXPECT_FALSE(has(0));
  EXPECT_TRUE(has(1));
  plans[1]->is_obsolete = true;
  EXPECT_TRUE(cache().drop_obsolete());
  EXPECT_FALSE(has(1));
  EXPECT_FALSE(cache().drop_obsolete());
  (void)insert(0);
  EXPECT_TRUE(has(0));
}

// However many large plans one client asks for, those of the others stay.
TEST_F(plan_cache_test, drops_large_plans_before_small_ones) {
  constexpr std::size_t most = std::size_t{1} << 20U;
  plan_cache cache(most);
  const auto make_key = [](const char* kind, int number) {
    return plan_key{nullptr, kind + std::to_string(number)};
  };
  const auto add = [&](const char* kind, int number, std::size_t bytes) {
    cache.insert(make_key(kind, number), {std::make_shared<aging_plan>(bytes), {}});
    EXPECT_LE(cache.bytes(), most);
  };
  for (int i = 0; i < 50; ++i) add("small", i, 4096);
  for (const auto bytes : {most / 4, most / 2, most / 4 * 3 - 4096, most / 8}) {
    for (int i = 0; i < 10; ++i) add("large", static_cast<int>(bytes) + i, bytes);
  }
  const auto has = [&](const plan_key& key) {
    return cache.find(plan_key_view{nullptr, key.bytes}) != nullptr;
  };
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(has(make_key("small", i))) << i;
  EXPECT_TRUE(has(make_key("large", static_cast<int>(most / 8) + 9)));
  // Small plans of the last use drop large ones, and older small ones once there are none.
  for (int i = 50; i < 400; ++i) add("small", i, 4096);
  EXPECT_FALSE(has(make_key("large", static_cast<int>(most / 8) + 9)));
  EXPECT_TRUE(has(make_key("small", 399)));
  EXPECT_FALSE(has(make_key("small", 0)));
}

TEST_F(plan_cache_test, counts_a_plan_that_has_grown_anew) {
  constexpr std::size_t max_bytes = 100'000;
  plan_cache cache(max_bytes);
  const auto key = [](int number) {
    return plan_key{nullptr, std::to_string(number)};
  };
  std::vector<std::shared_ptr<aging_plan>> plans;
  for (int i = 0; i < 10; ++i) {
    plans.push_back(std::make_shared<aging_plan>(1000));
    cache.insert(key(i), {plans.back(), {}});
  }
  const auto before = cache.bytes();
  plans[0]->grow(50'000);  // now it is a large one
  EXPECT_FALSE(cache.recount(key(0), *plans[0]));
  EXPECT_EQ(cache.bytes(), before + 50'000);
  EXPECT_FALSE(cache.recount(key(0), *plans[1])) << "another plan is kept for the key";
  EXPECT_FALSE(cache.recount(key(99), *plans[0])) << "no plan is kept for the key";
  EXPECT_EQ(cache.bytes(), before + 50'000);
  plans[0]->grow(48'000);
  EXPECT_TRUE(cache.recount(key(0), *plans[0]));
  EXPECT_TRUE(cache.bytes() <= max_bytes || cache.size() == 1);
  EXPECT_EQ(cache.find(plan_key_view{nullptr, "1"}), nullptr) << "it was used before";
  EXPECT_NE(cache.find(plan_key_view{nullptr, "0"}), nullptr);
  for (int i = 0; i < 10; ++i) cache.insert(key(100 + i), {std::make_shared<aging_plan>(), {}});
  EXPECT_LE(cache.bytes(), max_bytes);
}

// Each entry is dropped while it is the next one to be looked at.
TEST_F(plan_cache_test, looks_on_after_the_next_plan_has_been_dropped) {
  plan_cache small(2 * 600);
  for (int i = 0; i < 100; ++i) {
    small.insert(plan_key{nullptr, std::to_string(i)}, {std::make_shared<aging_plan>(), {}});
    small.drop_some_obsolete();
  }
  EXPECT_EQ(small.size(), 2U);
  small.drop_device_memory();
  EXPECT_EQ(small.size(), 2U) << "these plans hold none";
}

/// Counts how often plans are asked about anything.
class counting_plan final : public operation_plan {
 public:
  bool obsolete() const noexcept override { return ++queries, false; }
  std::size_t device_bytes() const noexcept override { return ++queries, bytes_on_device; }
  bool captured() const noexcept override { return ++queries, is_captured; }
  bool refuses_capture() const noexcept override { return ++queries, refuses; }
  std::size_t bytes_on_device = 0;
  bool is_captured = false;
  bool refuses = false;
  static inline std::size_t queries = 0;
};

class many_plans : public ::testing::Test {
 protected:
  static constexpr std::size_t count = 20'000;
  void SetUp() override {
    for (std::size_t i = 0; i < count; ++i) insert(std::make_shared<counting_plan>());
    // None of them is in use.
    while (cache_.captures().captured != 0) continue;
    for (std::size_t i = 0; i < count; i += 1000) (void)cache_.captures();
    counting_plan::queries = 0;
  }
  std::size_t insert(std::shared_ptr<counting_plan> plan) {
    cache_.insert(plan_key{nullptr, std::to_string(inserted_)}, {std::move(plan), {}});
    return inserted_++;
  }
  bool find(std::size_t number) {
    const auto key = std::to_string(number);
    return cache_.find(plan_key_view{nullptr, key}) != nullptr;
  }
  plan_cache& cache() { return cache_; }

 private:
  plan_cache cache_{std::size_t{1} << 40U};
  std::size_t inserted_ = 0;
};

TEST_F(many_plans, are_not_visited_for_the_status) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(cache().captures().captured, 0U);
  EXPECT_EQ(counting_plan::queries, 0U);
}

TEST_F(many_plans, are_counted_when_they_are_captured) {
  const auto first = std::make_shared<counting_plan>();
  const auto second = std::make_shared<counting_plan>();
  const auto number = insert(first);
  (void)insert(second);
  EXPECT_EQ(cache().captures().captured, 0U);
  // The planner and launches own the plans while they change.
  first->is_captured = true;
  second->refuses = true;
  EXPECT_EQ(cache().captures().captured, 1U);
  EXPECT_EQ(cache().captures().not_captured, 1U);
  EXPECT_TRUE(find(number));
  first->is_captured = false;
  EXPECT_EQ(cache().captures().captured, 0U);
  first->is_captured = true;
  EXPECT_EQ(cache().captures().captured, 1U);
  first->bytes_on_device = 1;
  (void)cache().device_bytes();
  cache().drop_some_obsolete(2 * count);  // measures all of them
  cache().drop_device_memory();
  EXPECT_FALSE(find(number));
  EXPECT_EQ(cache().captures().captured, 0U);
  EXPECT_EQ(cache().captures().not_captured, 1U);
  EXPECT_EQ(cache().size(), count + 1);
}

TEST_F(many_plans, are_not_visited_for_an_allocation_that_fails) {
  const auto large = std::make_shared<counting_plan>();
  large->bytes_on_device = 1000;
  (void)insert(large);
  counting_plan::queries = 0;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(cache().drop_obsolete());
    EXPECT_EQ(cache().device_bytes(), 1000U);
  }
  EXPECT_LE(counting_plan::queries, 10U * 4096U);
  cache().drop_device_memory();
  EXPECT_EQ(cache().size(), count);
  EXPECT_EQ(cache().device_bytes(), 0U);
}

}  // namespace
}  // namespace sluice::test
