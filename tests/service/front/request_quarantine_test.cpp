// SPDX-License-Identifier: Apache-2.0
// Which requests are refused, and for how long.
#include "service/front/request_quarantine.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

using time_point = request_quarantine::clock::time_point;

run_message request_for(std::uint32_t model, std::vector<std::int64_t> shape,
                        std::uint64_t tenant = 0) {
  run_message request{.model = model, .tenant = tenant};
  request.inputs.push_back({.type = datatype::uint8, .shape = std::move(shape)});
  return request;
}

TEST(request_quarantine, holds_requests_of_the_same_kind) {
  request_quarantine quarantine;
  const time_point now(std::chrono::hours(1));
  auto request = request_for(1, {2, 3}, 4);
  EXPECT_FALSE(quarantine.holds(request, now));
  quarantine.add(request, now);
  request.number = 9;
  request.connection = 9;
  EXPECT_TRUE(quarantine.holds(request, now));
  EXPECT_FALSE(quarantine.holds(request_for(2, {2, 3}, 4), now));
  EXPECT_FALSE(quarantine.holds(request_for(1, {2, 3}, 5), now));
  EXPECT_FALSE(quarantine.holds(request_for(1, {3, 2}, 4), now));
  EXPECT_FALSE(quarantine.holds(request_for(1, {2, 3, 1}, 4), now));
  request.inputs[0].type = datatype::int8;
  EXPECT_FALSE(quarantine.holds(request, now));
}

TEST(request_quarantine, releases_kinds) {
  request_quarantine quarantine;
  const time_point now(std::chrono::hours(1));
  quarantine.add(request_for(1, {2}), now);
  quarantine.add(request_for(2, {2}), now + std::chrono::seconds(1));
  const auto end = now + request_quarantine::duration;
  EXPECT_TRUE(quarantine.holds(request_for(1, {2}), end - std::chrono::nanoseconds(1)));
  EXPECT_FALSE(quarantine.holds(request_for(1, {2}), end));
  EXPECT_TRUE(quarantine.holds(request_for(2, {2}), end));
  quarantine.release(2);
  EXPECT_FALSE(quarantine.holds(request_for(2, {2}), end));
}

TEST(request_quarantine, is_bounded) {
  request_quarantine quarantine;
  time_point now(std::chrono::hours(1));
  const auto most = static_cast<std::int64_t>(request_quarantine::most_kinds);
  for (std::int64_t i = 0; i <= most; ++i) {
    quarantine.add(request_for(1, {i}), now += std::chrono::nanoseconds(1));
  }
  EXPECT_EQ(quarantine.size(), request_quarantine::most_kinds);
  EXPECT_FALSE(quarantine.holds(request_for(1, {0}), now));
  EXPECT_TRUE(quarantine.holds(request_for(1, {1}), now));
  EXPECT_TRUE(quarantine.holds(request_for(1, {most}), now));
}

}  // namespace
}  // namespace sluice::service
