// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/executing.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/bulk.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/indexed_operation.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// Refuses every request with a text of `length` bytes that are no letters of ASCII.
struct refusing {
  operand x{};
  std::size_t length = 0;
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &refusing::x), parameter("length", &refusing::length),
                           output("y", &refusing::y));
  }
  static constexpr std::string_view name = "refusing";
  static constexpr bool has_kernel = false;
  struct call {
    std::size_t count;
  };
  static call infer(const refusing& op, inference&) {
    std::string text;
    while (text.size() + 2 <= op.length) text += "é";
    throw error(errc::unsupported, text, library_status{"test", 7});
  }
  static auto body(const call&, const launch_of<refusing>&) {
    return [](std::size_t) {
    };
  }
};

class bulk_test : public executor_test {
 protected:
  tensor values(std::vector<float> elements) {
    return tensor(upload(runtime(), stream(), elements)).reshape({2, 2});
  }
  std::vector<float> elements(const tensor& t) {
    return download(t.reshape({-1}).as<float>(), stream());
  }
  pending<bulk_results> send(bulk many, const request_options& options = {},
                             request_sender sender = {}) {
    pending<bulk_results> answer(waking_alarm());
    test_executor().submit(std::move(many), options, answer.token(), sender);
    return answer;
  }
  std::vector<bulk_result> answers(bulk many, const request_options& options = {}) {
    auto answer = send(std::move(many), options);
    return wait(answer).results;
  }
};

TEST_P(bulk_test, answers_each_operation_in_its_place) {
  const auto a = values({1, 2, 3, 4});
  const auto b = values({0, 1, 1, 0});
  bulk many;
  many.add(gemm{.a = a, .b = b}).add(add(a, b)).add(gemm{.a = b, .b = a});
  many.add(gemm{.a = a, .b = values({1, 1, 1, 1}).reshape({4, 1})});
  many.add(sgemm{
      .m = 2, .n = 2, .k = 2, .a = a.reshape({-1}).as<float>(), .b = b.reshape({-1}).as<float>()});
  EXPECT_EQ(many.size(), 5U);
  const auto results = answers(many);
  ASSERT_EQ(results.size(), 5U);
  EXPECT_EQ(elements(results[0].value), (std::vector<float>{2, 1, 4, 3}));
  EXPECT_EQ(elements(results[1].value), (std::vector<float>{1, 3, 4, 4}));
  EXPECT_EQ(elements(results[2].value), (std::vector<float>{3, 4, 1, 2}));
  ASSERT_TRUE(results[3].failure);
  EXPECT_EQ(results[3].failure->code(), errc::invalid_argument);
  EXPECT_FALSE(results[3].value);
  EXPECT_EQ(elements(results[4].value), (std::vector<float>{2, 1, 4, 3}));
  for (const auto i : {0, 1, 2, 4}) EXPECT_FALSE(results[static_cast<std::size_t>(i)].failure);
}

TEST_P(bulk_test, keeps_the_order_of_operations_with_a_hazard) {
  const auto a = values({1, 1, 0, 1});
  const auto x = values({1, 0, 0, 1});
  const auto y = values({0, 0, 0, 0});
  bulk many;
  for (int i = 0; i < 20; ++i) {
    many.add(gemm{.a = a, .b = x, .c = y});
    many.add(gemm{.a = a, .b = y, .c = x});
  }
  for (const auto& result : answers(many)) EXPECT_FALSE(result.failure);
  EXPECT_EQ(elements(x), (std::vector<float>{1, 40, 0, 1}));
}

TEST_P(bulk_test, without_operations_is_answered_at_once) {
  EXPECT_TRUE(answers({}).empty());
}

TEST_P(bulk_test, has_a_largest_size) {
  const auto a = values({1, 2, 3, 4});
  bulk many;
  while (many.size() < bulk::max_size) many.add(add(a, a));
  EXPECT_TRUE(throws(errc::invalid_argument, "bulk", [&] { many.add(add(a, a)); }));
  EXPECT_EQ(answers(std::move(many)).size(), bulk::max_size);
}

TEST_P(bulk_test, can_be_copied) {
  const auto a = values({1, 2, 3, 4});
  bulk many;
  many.add(add(a, a));
  const auto copy = many;
  many.add(gemm{.a = a, .b = a});
  EXPECT_EQ(copy.size(), 1U);
  EXPECT_EQ(elements(answers(copy).front().value), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(answers(std::move(many)).size(), 2U);
}

TEST_P(bulk_test, is_empty_after_a_move) {
  const auto a = values({1, 2, 3, 4});
  bulk many;
  many.add(add(a, a));
  EXPECT_EQ(answers(std::move(many)).size(), 1U);
  // NOLINTNEXTLINE(bugprone-use-after-move): a moved-from bulk is empty.
  EXPECT_TRUE(many.empty());
  many.add(add(a, a)).add(add(a, a));
  EXPECT_EQ(answers(many).size(), 2U);
  bulk other;
  other = std::move(many);
  // NOLINTNEXTLINE(bugprone-use-after-move): likewise.
  EXPECT_TRUE(answers(std::move(many)).empty());
  EXPECT_EQ(answers(std::move(other)).size(), 2U);
}

TEST_P(bulk_test, gives_each_operation_the_options_of_the_message) {
  const auto a = values({1, 2, 3, 4});
  // Kernels are loaded before the gate is closed.
  (void)run(test_executor(), gemm{.a = a, .b = a});
  gate closed;
  closed.hold(test_executor().lane().stream());
  bulk many;
  for (int i = 0; i < 300; ++i) many.add(gemm{.a = a, .b = a});
  const request_sender sender{3};
  auto cancelled = send(many, {.id = 9}, sender);
  auto expired = send(many, {.deadline = timer().now() + std::chrono::seconds(1)}, sender);
  test_executor().cancel(sender, 9);
  for (const auto& result : wait(cancelled).results) {
    ASSERT_TRUE(result.failure);
    EXPECT_EQ(result.failure->code(), errc::cancelled);
  }
  timer().advance(std::chrono::seconds(2));
  for (const auto& result : wait(expired).results) {
    ASSERT_TRUE(result.failure);
    EXPECT_EQ(result.failure->code(), errc::deadline_exceeded);
  }
  closed.open();
  const auto early = answers(many, {.reply = reply_on::enqueued});
  EXPECT_EQ(early.size(), 300U);
  for (const auto& result : early)
    EXPECT_EQ(elements(result.value), (std::vector<float>{7, 10, 15, 22}));
}

TEST_P(bulk_test, beyond_the_queue_fails_in_part) {
  const auto a = values({1, 2, 3, 4});
  (void)run(test_executor(), gemm{.a = a, .b = a});
  const auto small = make_executor({.max_waiting = 8});
  (void)run(*small, gemm{.a = a, .b = a});
  gate closed;
  closed.hold(small->lane().stream());
  // Two of these occupy the lane.
  auto first = submit(*small, gemm{.a = a, .b = a});
  auto second = submit(*small, gemm{.a = a, .b = a});
  bulk many;
  for (int i = 0; i < 12; ++i) many.add(gemm{.a = a, .b = a});
  pending<bulk_results> answer(waking_alarm());
  small->submit(std::move(many), {}, answer.token());
  EXPECT_FALSE(answer.answered());
  closed.open();
  std::size_t overloaded = 0;
  for (const auto& result : wait(*small, answer).results) {
    if (result.failure) {
      EXPECT_EQ(result.failure->code(), errc::overloaded);
      ++overloaded;
    }
  }
  EXPECT_EQ(overloaded, 4U);
  (void)wait(*small, first);
  (void)wait(*small, second);
}

// A request that waits keeps the results of the whole message.
TEST_P(bulk_test, counts_its_memory_in_the_queue) {
  const auto a = values({1, 2, 3, 4});
  (void)run(test_executor(), gemm{.a = a, .b = a});
  gate closed;
  closed.hold(test_executor().lane().stream());
  auto first = submit(test_executor(), gemm{.a = a, .b = a});
  auto second = submit(test_executor(), gemm{.a = a, .b = a});
  bulk many;
  many.add(gemm{.a = a, .b = a});
  for (std::size_t i = 1; i < bulk::max_size; ++i) {
    many.add(gemm{.a = a, .b = a.reshape({4, 1})});
  }
  const auto before = test_executor().status();
  auto answer = send(std::move(many));
  const auto during = test_executor().status();
  EXPECT_EQ(during.requests, before.requests + 1);
  EXPECT_GE(during.bytes, before.bytes + bulk::max_size * sizeof(bulk_result));
  closed.open();
  EXPECT_FALSE(wait(answer).results[0].failure);
  (void)wait(first);
  (void)wait(second);
  EXPECT_EQ(test_executor().status().bytes, 0U);
}

TEST_P(bulk_test, bounds_the_texts_of_errors) {
  const auto a = values({1, 2, 3, 4});
  bulk many;
  for (const std::size_t length : {0U, 1022U, 1024U, 1026U, 1'000'000U}) {
    many.add(refusing{.x = a, .length = length});
  }
  const auto results = answers(std::move(many));
  ASSERT_EQ(results.size(), 5U);
  const auto text_of = [&](std::size_t i) {
    return std::string_view(results[i].failure->what());
  };
  EXPECT_EQ(text_of(0), "");
  EXPECT_EQ(text_of(1).size(), 1022U);
  EXPECT_EQ(text_of(2).size(), 1024U);
  for (const std::size_t i : {3U, 4U}) {
    ASSERT_EQ(text_of(i).size(), 1023U) << "the last character would be cut in two";
    EXPECT_EQ(text_of(i).substr(1018), "é...");
    EXPECT_EQ(results[i].failure->code(), errc::unsupported);
    EXPECT_EQ(results[i].failure->status(), (library_status{"test", 7}));
  }
}

TEST_P(bulk_test, counts_the_texts_of_errors_in_the_queue) {
  const auto a = values({1, 2, 3, 4});
  (void)run(test_executor(), gemm{.a = a, .b = a});
  gate closed;
  closed.hold(test_executor().lane().stream());
  auto first = submit(test_executor(), gemm{.a = a, .b = a});
  auto second = submit(test_executor(), gemm{.a = a, .b = a});
  const auto bytes_of_bulk = [&](std::size_t length) {
    bulk many;
    many.add(gemm{.a = a, .b = a});
    for (int i = 0; i < 1000; ++i) many.add(refusing{.x = a, .length = length});
    const auto before = test_executor().status().bytes;
    auto answer = send(std::move(many), {.id = 5}, {3});
    const auto bytes = test_executor().status().bytes - before;
    test_executor().cancel({3}, 5);
    EXPECT_EQ(wait(answer).results[0].failure->code(), errc::cancelled);
    EXPECT_EQ(test_executor().status().bytes, before);
    return bytes;
  };
  EXPECT_EQ(bytes_of_bulk(500), bytes_of_bulk(0) + 500'000);
  closed.open();
  (void)wait(first);
  (void)wait(second);
}

TEST_P(bulk_test, with_its_memory_is_bounded) {
  const auto a = values({1, 2, 3, 4});
  constexpr request_sender sender{1};
  // The share of a sender is half of the bytes.
  const auto small = make_executor({.max_waiting_bytes = 2 * bulk::max_size * sizeof(bulk_result)});
  (void)run(*small, gemm{.a = a, .b = a});
  const auto waiting_bulk = [&] {
    bulk many;
    for (std::size_t i = 1; i < bulk::max_size; ++i) {
      many.add(gemm{.a = a, .b = a.reshape({4, 1})});
    }
    many.add(gemm{.a = a, .b = a});
    pending<bulk_results> answer(waking_alarm());
    small->submit(std::move(many), {}, answer.token(), sender);
    return answer;
  };
  for (int round = 0; round < 3; ++round) {
    gate closed;
    closed.hold(small->lane().stream());
    auto first = submit(*small, gemm{.a = a, .b = a});
    auto second = submit(*small, gemm{.a = a, .b = a});
    auto bulk_answer = waiting_bulk();
    auto refused = waiting_bulk();
    ASSERT_TRUE(refused.answered());
    EXPECT_EQ(refused.get().results.back().failure->code(), errc::overloaded);
    closed.open();
    EXPECT_FALSE(wait(*small, bulk_answer).results.back().failure) << "round " << round;
    (void)wait(*small, first);
    (void)wait(*small, second);
  }
}

TEST_P(bulk_test, is_answered_when_its_executor_ends) {
  const auto a = values({1, 2, 3, 4});
  auto ended = make_executor();
  (void)run(*ended, gemm{.a = a, .b = a});
  gate closed;
  closed.hold(ended->lane().stream());
  bulk many;
  for (int i = 0; i < 300; ++i) many.add(gemm{.a = a, .b = a});
  pending<bulk_results> answer(waking_alarm());
  ended->submit(std::move(many), {}, answer.token());
  ended.reset();
  closed.open();
  await([&] { return answer.answered(); });
  std::size_t cancelled = 0;
  for (const auto& result : answer.get().results) {
    if (!result.failure) continue;
    EXPECT_EQ(result.failure->code(), errc::cancelled);
    ++cancelled;
  }
  EXPECT_GT(cancelled, 0U);
}

INSTANTIATE_TEST_SUITE_P(devices, bulk_test, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
