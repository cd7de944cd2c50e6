// SPDX-License-Identifier: Apache-2.0
// The programs that are kept for a model, beside a list that is searched from its end.
#include "operations/models/program_cache.hpp"

#include "operations/models/program_key.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/unary.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using sluice::detail::program_cache;
using sluice::detail::program_key;
using sluice::detail::program_outcome;

program_key key_of(const extents& shape, element_type type = element_type::f32) {
  return program_key({host_tensor(type, shape)});
}

TEST(program_key, is_that_of_types_shapes_and_values) {
  EXPECT_TRUE(key_of({2, 3}) == key_of({2, 3}));
  for (const auto& other : {key_of({3, 2}), key_of({6}), key_of({2, 3, 1}), key_of({}),
                            key_of({2, 3}, element_type::f64), program_key({})}) {
    EXPECT_FALSE(key_of({2, 3}) == other);
  }
  auto generator = make_generator();
  const host_tensor value(random_values<float>(generator, 13));
  const program_key unbound({value});
  auto bound = unbound;
  bound.bind(0, value);
  EXPECT_FALSE(bound == unbound);
  EXPECT_EQ(bound.bound_bytes(), 13 * sizeof(float));
  auto same = unbound;
  same.bind(0, host_tensor(value.to_vector<float>()));
  EXPECT_TRUE(bound == same);
  EXPECT_EQ(bound.hash(), same.hash());
  auto values = value.to_vector<float>();
  values[std::uniform_int_distribution<std::size_t>(0, 12)(generator)] += 2;
  auto other = unbound;
  other.bind(0, host_tensor(values));
  EXPECT_FALSE(bound == other);
}

TEST(program_key, pads_no_input_beside_large_values) {
  const host_tensor x(std::vector<float>(5));
  const auto padded = [&](std::size_t bytes) {
    const host_tensor value{std::vector<std::uint8_t>(bytes)};
    const auto count = static_cast<std::int64_t>(bytes);
    program_key key({x, value}, {{8}, {count}});
    EXPECT_TRUE(key.is_rounded());
    EXPECT_FALSE(key == program_key({x, value}));
    EXPECT_TRUE(key.rounded() == program_key({host_tensor(std::vector<float>(8)), value}));
    key.bind(1, value);
    return key.is_rounded();
  };
  EXPECT_TRUE(padded(program_key::most_bound_of_padded));
  EXPECT_FALSE(padded(program_key::most_bound_of_padded + 1));
}

// The program has the elements of the input, without zeros behind them.
TEST(program_key, pads_no_input_that_is_bound) {
  const host_tensor x(std::vector<float>(5));
  program_key key({x, x}, {{8}, {8}});
  EXPECT_TRUE(key.is_rounded());
  key.bind(1, x);
  EXPECT_FALSE(key.is_rounded());
  EXPECT_EQ(key.inputs()[0].padded, x.shape());
}

TEST(program_key, has_a_copy_with_values_of_its_own) {
  host_tensor value(std::vector<float>{1, 2});
  for (const auto& input : {value, host_tensor(std::vector<float>())}) {
    program_key key({input});
    key.bind(0, input);
    const auto copy = key.copy();
    EXPECT_TRUE(copy == key);
    EXPECT_NE(copy.inputs()[0].value.data(), input.data());
  }
  program_key key({value});
  key.bind(0, value);
  const auto copy = key.copy();
  value.values<float>()[0] = 3;
  EXPECT_FALSE(copy == key);
}

TEST(program_cache, keeps_what_was_used_last) {
  auto generator = make_generator();
  const auto number = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(generator);
  };
  program_builder p;
  const auto what = std::move(p).build({p.add(exp(p.input("x")))});
  const auto most = static_cast<std::size_t>(number(5));
  program_cache cache(most);
  // Shapes by last use, the last one first. Even ones have programs, and odd ones have none.
  std::vector<std::int64_t> kept[2];
  for (int i = 0; i < 3000; ++i) {
    const auto extent = number(20);
    auto& list = kept[extent % 2];
    const auto expected = std::find(list.begin(), list.end(), extent);
    const auto key = key_of({extent});
    const auto found = cache.find(key);
    ASSERT_EQ(found != nullptr, expected != list.end()) << i;
    if (expected != list.end()) {
      std::rotate(list.begin(), expected, expected + 1);
      EXPECT_TRUE(found->key == key);
      continue;
    }
    const auto added = cache.add(key);
    EXPECT_EQ(cache.find(key), added);
    switch (number(3)) {
      case 1:
        cache.drop_unless_awaited(*added);
        break;
      case 2:
        cache.finish(*added, {.failure = error(errc::out_of_memory, "no room")});
        break;
      default:
        if (extent % 2 == 0) {
          cache.finish(*added, {.what = what});
        } else {
          cache.finish(*added, {.failure = error(errc::unsupported, "no operator")});
        }
        list.insert(list.begin(), extent);
        if (list.size() > most) list.pop_back();
    }
    ASSERT_EQ(cache.programs(), kept[0].size());
  }
}

TEST(program_cache, begins_attempts_in_order) {
  program_cache cache(1);
  const auto first = cache.add(key_of({1}));
  const auto second = cache.add(key_of({2}));
  EXPECT_EQ(cache.find(key_of({2})), second);
  EXPECT_EQ(cache.begin_next(), first);
  EXPECT_EQ(cache.find(key_of({1})), first);
  EXPECT_EQ(cache.begin_next(), second);
  EXPECT_EQ(cache.begin_next(), nullptr);
}

TEST(program_cache, drops_attempts_that_nothing_waits_for) {
  program_cache cache(1);
  auto begun = cache.add(key_of({1}));
  auto awaited = cache.add(key_of({2}));
  auto unused = cache.add(key_of({3}));
  awaited->waiting.push_back(7);
  EXPECT_EQ(cache.begin_next(), begun);
  for (const auto& each : {begun, awaited, unused}) cache.drop_unless_awaited(*each);
  EXPECT_EQ(cache.find(key_of({1})), begun);
  EXPECT_EQ(cache.find(key_of({2})), awaited);
  EXPECT_EQ(cache.find(key_of({3})), nullptr);
  EXPECT_EQ(unused.use_count(), 1);
  EXPECT_EQ(cache.begin_next(), awaited);
  EXPECT_EQ(cache.begin_next(), nullptr);
}

TEST(program_cache, counts_inputs_that_must_be_bound_apart) {
  const auto failure = error(errc::invalid_argument, "must be known");
  program_cache cache(1);
  for (const std::int64_t extent : {1, 2}) {
    const auto added = cache.add(key_of({extent}));
    cache.finish(*added, {.failure = failure, .unbound_inputs = {0}});
  }
  const auto failed = cache.add(key_of({3}));
  cache.finish(*failed, {.failure = failure});
  for (const std::int64_t extent : {1, 2, 3}) EXPECT_NE(cache.find(key_of({extent})), nullptr);
  // At most 16 are kept.
  for (std::int64_t extent = 4; extent <= 18; ++extent) {
    const auto added = cache.add(key_of({extent}));
    cache.finish(*added, {.failure = failure, .unbound_inputs = {0}});
  }
  EXPECT_EQ(cache.find(key_of({1})), nullptr);
  EXPECT_NE(cache.find(key_of({2})), nullptr);
  EXPECT_NE(cache.find(key_of({3})), nullptr);
}

}  // namespace
}  // namespace sluice::test
