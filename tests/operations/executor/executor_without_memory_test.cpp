// SPDX-License-Identifier: Apache-2.0
// An executor whose owner has no memory for one allocation, wherever it makes it.
#include "tests/operations/executing.hpp"
#include "tests/operations/executor/planned_operation.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/gate.hpp"

#include <sluice/operations/transfer.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

/// What a client learns of one request.
struct outcome {
  int answers = 0;
  std::optional<error> failure;
};

class executor_without_memory : public executor_test {
 protected:
  tensor words(std::size_t count = 4) {
    return test::upload(runtime(), stream(), std::vector<std::uint32_t>(count, 1));
  }
  /// Submits what `make(n)` makes, for n = 1, 2 and so on, while the n-th allocation of the owner
  /// fails. Returns the number of allocations that failed.
  template <class Make>
  int with_each_failing(const request_options& options, Make make) {
    for (int nth = 1;; ++nth) {
      const auto before = runtime().statistics().references;
      auto operation = make(nth);
      outcome got;
      std::atomic<bool> answered{false};
      auto token = reply_token<tensor>::from(
          [&](const tensor&) {
            ++got.answers;
            answered = true;
            waking_alarm()->ring();
          },
          [&](const error& why) {
            ++got.answers;
            got.failure = why;
            answered = true;
            waking_alarm()->ring();
          });
      fail_allocation(static_cast<std::uint64_t>(nth));
      test_executor().submit(std::move(operation), options, std::move(token), {1});
      for (test_executor().work(); !answered; test_executor().work()) waking_alarm()->await();
      const bool failed = !allocation_is_to_fail();
      fail_allocation(0);
      EXPECT_EQ(got.answers, 1) << "allocation " << nth;
      if (got.failure) {
        EXPECT_EQ(got.failure->code(), errc::out_of_memory)
            << "allocation " << nth << ": " << got.failure->what();
      }
      EXPECT_EQ(test_executor().waiting(), 0U);
      // A launch that was enqueued, but could not be published, holds its memory a little longer.
      await([&] { return runtime().statistics().references == before; });
      if (!failed) {
        EXPECT_FALSE(got.failure);
        return nth - 1;
      }
    }
  }
  [[nodiscard]] plan_script& script() { return script_; }

 private:
  plan_script script_;
};

TEST_P(executor_without_memory, answers_a_request_with_a_new_plan) {
  const auto x = words();
  EXPECT_GT(with_each_failing({}, [&](int n) { return planned{.x = x, .key = 100 + n}; }), 5);
}

TEST_P(executor_without_memory, answers_a_request_with_options) {
  const auto x = words();
  const request_options options{.reply = reply_on::enqueued,
                                .deadline = timer().now() + 1h,
                                .id = 7,
                                .tag = "a tag that needs memory of its own"};
  EXPECT_GT(with_each_failing(options, [&](int n) { return planned{.x = x, .key = n}; }), 5);
}

TEST_P(executor_without_memory, answers_transfers) {
  const auto x = words();
  const auto values = host_tensor(element_type::u32, {4});
  EXPECT_GT(with_each_failing({}, [&](int) { return sluice::upload{.values = values}; }), 2);
  EXPECT_GT(
      with_each_failing(
          {.tag = "a tag that needs memory of its own"},
          [&](int) { return sluice::download{.x = x, .target = std::make_shared<host_tensor>()}; }),
      2);
}

/// If the planner takes no job, the owner is woken in its own call, and may end the executor.
TEST_P(executor_without_memory, may_be_destroyed_when_its_plan_cannot_be_made) {
  const auto x = words();
  const auto owner = std::this_thread::get_id();
  int ended = 0;
  for (int nth = 1;; ++nth) {
    auto second = std::make_unique<executor>(service());
    second->on_wake([&] {
      if (std::this_thread::get_id() != owner || second == nullptr) return;
      second.reset();
      ++ended;
    });
    pending_answer answer(waking_alarm());
    auto token = answer.token();
    planned operation{.x = x, .key = 100 + nth};
    fail_allocation(static_cast<std::uint64_t>(nth));
    second->submit(std::move(operation), {}, std::move(token));
    const bool failed = !allocation_is_to_fail();
    fail_allocation(0);
    second.reset();
    EXPECT_TRUE(answer.answered()) << nth;
    if (!failed) break;
  }
  EXPECT_GT(ended, 0);
}

INSTANTIATE_TEST_SUITE_P(devices, executor_without_memory, ::testing::Values("host"),
                         parameter_name);

}  // namespace
}  // namespace sluice::test
