// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/executor/batches.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

TEST_P(batches, give_each_member_its_own_failure) {
  if (!on_host()) GTEST_SKIP() << "single launches fail on the host device only";
  const auto [a, b, ab] = any_product();
  gate closed;
  closed.hold(traced().lane().stream());
  auto before = send(product_of(a, b));
  gather();
  std::vector<pending_answer> answers;
  for (int i = 0; i < 6; ++i) {
    answers.push_back(send(product_of(a, b), {.tag = std::to_string(i)}));
  }
  // The third launch of the batch.
  faults().fail_nth(fault_target::launch, 3);
  launch_gathered();
  closed.open();
  (void)answer_of(before);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (i == 2) {
      EXPECT_TRUE(throws(errc::library_failure, "", [&] { (void)answer_of(answers[i]); }));
    } else {
      EXPECT_EQ(elements(answer_of(answers[i])), ab) << i;
    }
  }
  EXPECT_EQ(launched(), (sizes{1, 6}));
  EXPECT_EQ(trace().failed(), std::vector<std::string>{"2"});
}

TEST_P(batches, pass_the_failure_of_an_earlier_launch_on_to_those_that_use_it) {
  if (!on_host()) GTEST_SKIP() << "single launches fail on the host device only";
  const auto [a, b, ab] = any_product();
  const auto failed = any();
  gate closed;
  closed.hold(traced().lane().stream());
  faults().fail_nth(fault_target::launch, 1);
  auto before = send(product_of(a, b, failed));
  gather();
  std::vector<pending_answer> answers;
  for (int i = 0; i < 6; ++i) answers.push_back(send(product_of(i % 2 == 0 ? a : failed, b)));
  launch_gathered();
  closed.open();
  EXPECT_TRUE(throws(errc::library_failure, "", [&] { (void)answer_of(before); }));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (i % 2 != 0) {
      EXPECT_TRUE(throws(errc::upstream_failed, "", [&] { (void)answer_of(answers[i]); }));
    } else {
      EXPECT_EQ(elements(answer_of(answers[i])), ab) << i;
    }
  }
}

TEST_P(batches, go_on_without_members_that_preflight_refuses) {
  if (!on_host()) GTEST_SKIP() << "single launches fail on the host device only";
  const auto [a, b, ab] = any_product();
  const auto failed = any();
  faults().fail_nth(fault_target::launch, 1);
  auto before = send(product_of(a, b, failed));
  EXPECT_TRUE(throws(errc::library_failure, "", [&] { (void)answer_of(before); }));
  gate closed;
  closed.hold(traced().lane().stream());
  auto held = send(product_of(a, b));
  gather();
  std::vector<pending_answer> answers;
  for (int i = 0; i < 7; ++i) {
    answers.push_back(send(product_of(i == 1 || i == 4 ? failed : a, b)));
  }
  launch_gathered();
  EXPECT_TRUE(answers[1].answered());
  EXPECT_TRUE(answers[4].answered());
  closed.open();
  (void)answer_of(held);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (i == 1 || i == 4) {
      EXPECT_TRUE(throws(errc::upstream_failed, "", [&] { (void)answer_of(answers[i]); }));
    } else {
      EXPECT_EQ(elements(answer_of(answers[i])), ab) << i;
    }
  }
  EXPECT_EQ(launched(), (sizes{1, 1, 5}));
}

TEST_P(batches, refuse_a_member_whose_memory_was_freed_while_it_waited) {
  const auto [a, b, ab] = any_product();
  auto freed = any();
  gate closed;
  closed.hold(traced().lane().stream());
  auto held = send(product_of(a, b));
  gather();
  std::vector<pending_answer> answers;
  for (int i = 0; i < 5; ++i) answers.push_back(send(product_of(i == 3 ? freed : a, b)));
  runtime().deallocate(freed.block());
  launch_gathered();
  closed.open();
  (void)answer_of(held);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (i == 3) {
      EXPECT_TRUE(throws(errc::stale_ref, "", [&] { (void)answer_of(answers[i]); }));
    } else {
      EXPECT_EQ(elements(answer_of(answers[i])), ab) << i;
    }
  }
  EXPECT_EQ(launched(), (sizes{1, 4}));
}

TEST_P(batches, leave_out_what_was_cancelled_or_has_expired_before) {
  const auto a = any();
  const auto b = any();
  gate closed;
  closed.hold(traced().lane().stream());
  const request_sender sender{7};
  auto held = send(product_of(a, b));
  gather();
  auto cancelled = send(product_of(a, b), {.id = 5}, sender);
  auto expired = send(product_of(a, b), {.deadline = timer().now() + 10ms}, sender);
  auto stays = send(product_of(a, b), {.id = 6}, sender);
  auto stays_too = send(product_of(a, b), {.deadline = timer().now() + 10h}, sender);
  timer().advance(20ms);
  traced().cancel(sender, 5);
  EXPECT_EQ(launched(), (sizes{1, 2}));
  // Once it has been launched, only the answer changes.
  traced().cancel(sender, 6);
  closed.open();
  (void)answer_of(held);
  EXPECT_TRUE(throws(errc::cancelled, "", [&] { (void)answer_of(cancelled); }));
  EXPECT_TRUE(throws(errc::deadline_exceeded, "", [&] { (void)answer_of(expired); }));
  EXPECT_TRUE(throws(errc::cancelled, "", [&] { (void)answer_of(stays); }));
  (void)answer_of(stays_too);
}

TEST_P(batches, and_single_launches_do_not_nest) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it frees memory while a stream is held");
  for (const auto bits : {result_bits::any, result_bits::as_if_alone}) {
    const auto a = any();
    const auto b = any();
    auto freed = any();
    gate closed;
    closed.hold(traced().lane().stream());
    auto held = send(product_of(a, b));
    gather();
    std::size_t submitted = 0;
    std::atomic<std::size_t> succeeded{0};  // those of a full batch, before the memory was freed
    std::vector<pending_answer> others;
    others.reserve(20000);
    for (int i = 0; i < 20000; ++i) {
      traced().submit(product_of(freed, b), {.bits = bits},
                      reply_token<tensor>::from([&](const tensor&) { succeeded.fetch_add(1); },
                                                [&](const error& why) {
                                                  EXPECT_EQ(why.code(), errc::stale_ref);
                                                  ++submitted;
                                                  others.push_back(send(product_of(a, b)));
                                                }));
    }
    runtime().deallocate(freed.block());
    closed.open();
    launch_gathered();
    (void)answer_of(held);
    await([&] {
      traced().work();
      return submitted + succeeded.load() == 20000;
    });
    for (auto& other : others) (void)answer_of(other);
  }
}

TEST_P(batches, leave_nothing_behind_when_the_device_is_lost) {
  const auto a = any();
  const auto b = any();
  if (!on_host()) GTEST_SKIP() << "a lost GPU ends the process";
  gate closed;
  closed.hold(traced().lane().stream());
  std::vector<pending_answer> answers;
  gather();
  for (int i = 0; i < 20; ++i) answers.push_back(send(product_of(a, b)));
  launch_gathered();
  for (int i = 0; i < 5; ++i) answers.push_back(send(product_of(a, b)));
  service()->device().lose(error(errc::device_lost, "lost by the test"));
  for (auto& answer : answers) {
    EXPECT_TRUE(throws(errc::device_lost, "", [&] { (void)answer_of(answer); }));
  }
  EXPECT_EQ(traced().waiting(), 0U);
}

}  // namespace
}  // namespace sluice::test
