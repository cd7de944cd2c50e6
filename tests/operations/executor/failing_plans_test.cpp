// SPDX-License-Identifier: Apache-2.0
// Senders whose plans fail rest, so that their plans cost others little.
#include "tests/operations/executing.hpp"
#include "tests/operations/executor/planned_operation.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

class failing_plans : public executor_test {
 protected:
  static constexpr request_sender alice{1};
  static constexpr request_sender bob{2};

  pending_answer send(executor& executor, std::int64_t key, request_sender sender) {
    const tensor x = upload(runtime(), stream(), std::vector<std::uint32_t>(4, 7));
    return submit(executor, planned{.x = x, .key = key}, {}, sender);
  }
  pending_answer send(std::int64_t key, request_sender sender) {
    return send(test_executor(), key, sender);
  }
  /// Has a plan fail.
  void fail(executor& executor, std::int64_t key, request_sender sender) {
    script().fail(key, errc::unsupported);
    auto failed = send(executor, key, sender);
    EXPECT_TRUE(throws(errc::unsupported, "scripted", [&] { (void)wait(executor, failed); }));
  }
  void fail(std::int64_t key, request_sender sender) { fail(test_executor(), key, sender); }
  [[nodiscard]] plan_script& script() { return script_; }

 private:
  plan_script script_;
};

TEST_P(failing_plans, let_their_sender_rest) {
  fail(1, alice);
  auto resting = send(2, alice);
  auto other = send(3, bob);
  (void)wait(other);
  test_executor().work();
  EXPECT_FALSE(resting.answered());
  EXPECT_EQ(script().begun(2), 0);
  EXPECT_EQ(timer().waiting(), 1U);
  timer().advance(1h);
  (void)wait(resting);
  EXPECT_EQ(script().begun(2), 1);
}

TEST_P(failing_plans, let_their_sender_rest_again) {
  for (std::int64_t key = 1; key <= 10; ++key) {
    fail(key, alice);
    auto resting = send(100 + key, alice);
    auto other = send(200 + key, bob);
    (void)wait(other);
    EXPECT_EQ(script().begun(100 + key), 0);
    script().fail(100 + key, errc::out_of_memory);
    timer().advance(1h);
    EXPECT_TRUE(throws(errc::out_of_memory, "scripted", [&] { (void)wait(resting); }));
    timer().advance(1h);
  }
}

TEST_P(failing_plans, of_others_delay_nobody_who_needs_the_same_plan) {
  fail(1, alice);
  auto resting = send(2, alice);
  auto other = send(2, bob);
  (void)wait(other);
  (void)wait(resting);
  EXPECT_EQ(script().begun(2), 1);
}

// The job is moved when its sender begins to fail, not only when another sender asks for it.
TEST_P(failing_plans, that_come_later_delay_nobody_who_needs_the_same_plan) {
  std::vector<pending_answer> failed;
  for (std::int64_t key = 10; key < 18; ++key) {
    script().fail(key, errc::unsupported);
    failed.push_back(send(key, alice));
  }
  auto resting = send(2, alice);
  auto other = send(2, bob);
  (void)wait(other);
  (void)wait(resting);
  EXPECT_EQ(script().begun(2), 1);
  EXPECT_EQ(script().begun(17), 0) << "alice still rests";
}

TEST_P(failing_plans, in_the_past_do_not_keep_a_sender_from_the_plan_of_another) {
  fail(1, bob);
  fail(10, alice);
  timer().advance(1s);  // both rests have ended, and failures count for another second
  fail(11, alice);
  auto resting = send(2, alice);
  auto other = send(2, bob);
  (void)wait(other);
  (void)wait(resting);
  EXPECT_EQ(script().begun(2), 1);
}

TEST_P(failing_plans, do_not_let_the_owner_rest) {
  fail(1, {});
  auto next = send(2, {});
  (void)wait(next);
  EXPECT_EQ(timer().waiting(), 0U);
}

TEST_P(failing_plans, end_with_the_executor) {
  auto ending = make_executor();
  fail(*ending, 1, alice);
  auto resting = send(*ending, 2, alice);
  EXPECT_EQ(timer().waiting(), 1U);
  ending.reset();
  EXPECT_EQ(timer().waiting(), 0U);
  EXPECT_TRUE(throws(errc::cancelled, "ended", [&] { (void)resting.get(); }));
}

INSTANTIATE_TEST_SUITE_P(devices, failing_plans, ::testing::Values("host"), parameter_name);

}  // namespace
}  // namespace sluice::test
