// SPDX-License-Identifier: Apache-2.0
// The requests that workers have.
#include "service/front/pending_requests.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace sluice::service {
namespace {

using time_point = pending_requests::time_point;

time_point at(int seconds) {
  return time_point(std::chrono::seconds(seconds));
}

worker_run run_until(std::optional<time_point> deadline) {
  return {.done = [](run_result) {}, .deadline = deadline};
}

TEST(pending_requests, expire_in_the_order_of_their_deadlines) {
  pending_requests pending;
  pending.add(1, run_until(at(30)));
  pending.add(2, run_until(at(10)));
  pending.add(3, run_until({}));
  pending.add(4, run_until(at(10)));
  EXPECT_EQ(pending.first_deadline(), at(10));
  EXPECT_TRUE(pending.take_expired(at(9)).empty());
  const auto expired = pending.take_expired(at(10));
  ASSERT_EQ(expired.size(), 2U);
  EXPECT_EQ(expired[0].first + expired[1].first, 2U + 4U);
  EXPECT_TRUE(expired[0].second != nullptr);
  // They stay until their worker has answered.
  const auto late = pending.take(2);
  ASSERT_TRUE(late);
  EXPECT_TRUE(late->done == nullptr);
  EXPECT_EQ(pending.first_deadline(), at(30));
}

TEST(pending_requests, are_taken_once) {
  pending_requests pending;
  pending.add(7, run_until(at(1)));
  EXPECT_TRUE(pending.take(7));
  EXPECT_FALSE(pending.take(7));
  EXPECT_FALSE(pending.first_deadline());
  EXPECT_TRUE(pending.take_expired(at(2)).empty());
}

TEST(pending_requests, count_an_attempt_once_it_is_sent) {
  pending_requests pending;
  pending.add(7, run_until({}));
  pending.assign(7, nullptr);
  EXPECT_EQ(pending.find(7)->attempts, 0U);
  pending.count_attempt(7);
  EXPECT_EQ(pending.find(7)->attempts, 1U);
  pending.assign(8, nullptr);
  pending.count_attempt(8);
  EXPECT_FALSE(pending.find(8));
}

TEST(pending_requests, keep_a_request_whose_answer_is_taken) {
  pending_requests pending;
  pending.add(7, run_until(at(1)));
  EXPECT_TRUE(pending.take_answer(7) != nullptr);
  EXPECT_TRUE(pending.take_answer(7) == nullptr);
  EXPECT_TRUE(pending.take_answer(8) == nullptr);
  EXPECT_FALSE(pending.first_deadline());
  EXPECT_TRUE(pending.take_expired(at(2)).empty());
  const auto run = pending.take(7);
  ASSERT_TRUE(run);
  EXPECT_TRUE(run->done == nullptr);
}

TEST(pending_requests, expire_no_more_once_they_are_added_again_without_an_answer) {
  pending_requests pending;
  pending.add(7, run_until(at(1)));
  (void)pending.take_expired(at(1));
  auto run = pending.take(7);
  ASSERT_TRUE(run);
  pending.add(7, std::move(*run));
  EXPECT_FALSE(pending.first_deadline());
  EXPECT_EQ(pending.take_all().size(), 1U);
  EXPECT_TRUE(pending.take_all().empty());
}

}  // namespace
}  // namespace sluice::service
