// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/executor/batches.hpp"

#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST_P(batches, grow_while_another_one_is_in_flight) {
  const auto a = any();
  const auto b = any();
  gate closed;
  closed.hold(traced().lane().stream());
  std::vector<pending_answer> answers;
  answers.reserve(200);
  for (int i = 0; i < 200; ++i) answers.push_back(send(product_of(a, b)));
  closed.open();
  for (auto& answer : answers) (void)answer_of(answer);
  // Two found room. Then the largest batch was launched, and the rest.
  EXPECT_EQ(launched(), (sizes{1, 1, 128, 70}));
}

TEST_P(batches, take_the_requests_at_hand_and_two_of_them_are_in_flight) {
  const auto a = any();
  const auto b = any();
  gate closed;
  closed.hold(traced().lane().stream());
  std::vector<pending_answer> answers;
  for (const int count : {1, 3, 5}) {
    gather();
    for (int i = 0; i < count; ++i) answers.push_back(send(product_of(a, b)));
    EXPECT_EQ(traced().waiting(), static_cast<std::size_t>(count));
    launch_gathered();
  }
  EXPECT_EQ(launched(), (sizes{1, 3}));
  EXPECT_EQ(traced().waiting(), 5U);
  EXPECT_EQ(traced().lane().batches(), 2U);
  closed.open();
  for (auto& answer : answers) (void)answer_of(answer);
  EXPECT_EQ(launched(), (sizes{1, 3, 5}));
  EXPECT_EQ(traced().lane().batches(), 0U);
  EXPECT_EQ(traced().lane().in_flight(), 0U);
}

TEST_P(batches, are_not_kept_waiting_by_refused_requests) {
  const auto a = any();
  const auto b = any();
  gather();
  auto answer = send(product_of(a, b));
  std::size_t refused = 0;
  while (launched().empty() && refused < 128) {
    auto bad = product_of(a, b);
    bad.a = tensor();
    auto why = send(std::move(bad));
    EXPECT_TRUE(throws(errc::invalid_argument, "a", [&] { (void)why.get(); }));
    ++refused;
    if (traced().waiting() == 0) break;
  }
  EXPECT_LE(refused, 1U);
  launch_gathered();
  (void)answer_of(answer);
}

TEST_P(batches, have_members_of_one_call_only) {
  const auto a = any();
  const auto b = any();
  const auto wide = tensor(upload(runtime(), stream(), std::vector<float>(side * 2 * side, 1)))
                        .reshape({side, 2 * side});
  gate closed;
  closed.hold(traced().lane().stream());
  std::vector<pending_answer> answers;
  answers.push_back(send(product_of(a, b)));
  gather();
  for (int i = 0; i < 4; ++i) {
    answers.push_back(send(product_of(a, b)));
    answers.push_back(send(product_of(a, wide)));
    answers.push_back(send({.a = a, .b = b, .alpha = 2}));
    answers.push_back(send(product_of(a.transposed(), b)));
    answers.push_back(send(product_of(a, b), {.bits = result_bits::as_if_alone}));
  }
  launch_gathered();
  closed.open();
  for (auto& answer : answers) (void)answer_of(answer);
  auto batch_sizes = launched();
  std::sort(batch_sizes.begin(), batch_sizes.end());
  EXPECT_EQ(batch_sizes, (sizes{1, 1, 1, 1, 1, 4, 4, 4, 4}));
}

TEST_P(batches, do_not_hold_back_a_chain) {
  const auto p = any_permutation(random());
  auto expected = any_permutation(random());
  const auto a = values(p);
  auto x = values(expected);
  auto y = any();
  gate closed;
  closed.hold(traced().lane().stream());
  std::vector<pending_answer> answers;
  for (int i = 0; i < 50; ++i) {
    answers.push_back(send(product_of(a, x, y)));
    expected = product(p, expected);
    std::swap(x, y);
  }
  // Nobody can join any of them, so only the last one waits for company.
  EXPECT_EQ(launched(), sizes(49, 1));
  EXPECT_EQ(traced().lane().in_flight(), 49U);
  closed.open();
  for (auto& answer : answers) (void)answer_of(answer);
  EXPECT_EQ(elements(x), matrix_of(expected));
}

TEST_P(batches, take_no_misaligned_operand) {
  const auto memory =
      runtime().allocate<float>(static_cast<std::size_t>(side * side + 4), stream(), "test");
  const auto [a, b, ab] = any_product();
  const tensor misaligned(memory.block(), element_type::f32, {side, side}, {side, 1},
                          sizeof(float));
  gate closed;
  closed.hold(traced().lane().stream());
  std::vector<pending_answer> answers;
  answers.push_back(send(product_of(a, b)));
  gather();
  for (int i = 0; i < 3; ++i) answers.push_back(send(product_of(a, b)));
  answers.push_back(send(product_of(a, b, misaligned)));
  launch_gathered();
  closed.open();
  for (auto& answer : answers) {
    EXPECT_EQ(elements(answer_of(answer)), ab);
  }
  EXPECT_EQ(launched(), (sizes{1, 3, 1}));
}

TEST_P(batches, of_random_requests_give_what_they_give_one_after_the_other) {
  constexpr std::size_t matrices = 36;
  constexpr std::size_t in_one_block = 12;
  constexpr std::array<std::int64_t, 3> sides{side, 5, 16};
  for (int round = 0; round < (under_compute_sanitizer() ? 2 : 20); ++round) {
    // Matrices of three sizes. Those of the first one are parts of one block.
    std::vector<permutation> expected(matrices);
    std::vector<tensor> memory(matrices);
    std::vector<float> together;
    for (std::size_t i = 0; i < matrices; ++i) {
      expected[i] = any_permutation(random(), sides[i / in_one_block]);
      const auto elements_of_one = matrix_of(expected[i]);
      if (i < in_one_block) {
        together.insert(together.end(), elements_of_one.begin(), elements_of_one.end());
      } else {
        memory[i] = values(expected[i]);
      }
    }
    const auto block = tensor(upload(runtime(), stream(), together))
                           .reshape({static_cast<std::int64_t>(in_one_block), side, side});
    for (std::size_t i = 0; i < in_one_block; ++i) {
      memory[i] = block.select(0, static_cast<std::int64_t>(i));
    }
    std::optional<gate> closed;
    // Under compute-sanitizer an allocation waits for the device.
    if (round % 2 == 0 && !under_compute_sanitizer())
      closed.emplace().hold(traced().lane().stream());
    std::vector<pending_answer> answers;
    std::uniform_int_distribution<std::size_t> pick(0, in_one_block - 1);
    std::uniform_int_distribution<int> percent(0, 99);
    std::vector<std::pair<std::size_t, permutation>> news;
    for (int i = 0; i < (under_compute_sanitizer() ? 60 : 300); ++i) {
      const auto first_of_size = pick(random()) / 4 * in_one_block;
      const auto a = first_of_size + pick(random());
      const auto b = first_of_size + pick(random());
      const auto c = first_of_size + pick(random());
      if (percent(random()) < 10) gather();
      if (percent(random()) < 10) launch_gathered();
      const request_options options{
          .reply = percent(random()) < 20 ? reply_on::enqueued : reply_on::finished,
          .priority = static_cast<request_priority>(percent(random()) % 3),
          .bits = percent(random()) < 5 ? result_bits::as_if_alone : result_bits::any};
      const bool is_transposed = percent(random()) < 20;
      auto first = is_transposed ? memory[a].transposed() : memory[a];
      auto permutation = expected[a];
      if (is_transposed) {
        for (std::size_t n = 0; n < permutation.size(); ++n)
          permutation[expected[a][n]] = static_cast<std::uint8_t>(n);
      }
      const auto result = product(permutation, expected[b]);
      if (c == a || c == b) {
        news.emplace_back(answers.size(), result);
        answers.push_back(send(product_of(first, memory[b]), options));
      } else {
        expected[c] = result;
        answers.push_back(send(product_of(first, memory[b], memory[c]), options));
      }
    }
    launch_gathered();
    if (closed) closed->open();
    std::vector<tensor> results;
    results.reserve(answers.size());
    for (auto& answer : answers) results.push_back(answer_of(answer));
    for (std::size_t i = 0; i < matrices; ++i) {
      ASSERT_EQ(elements(memory[i]), matrix_of(expected[i])) << "round " << round << ", " << i;
    }
    for (const auto& [number, result] : news) {
      ASSERT_EQ(elements(results[number]), matrix_of(result)) << "round " << round;
    }
  }
  const auto batch_sizes = launched();
  EXPECT_GT(*std::max_element(batch_sizes.begin(), batch_sizes.end()), 1U);
}

TEST_P(batches, let_a_receiver_submit_in_the_middle) {
  const auto p = any_permutation(random());
  const auto q = any_permutation(random());
  const auto a = values(p);
  const auto b = values(q);
  auto freed = any();
  const auto c = any();
  gate closed;
  closed.hold(traced().lane().stream());
  auto held = send(product_of(a, b));
  // The answer to the second member, whose memory is gone, comes while the batch is launched. A
  // request that its receiver submits reads what the fourth member writes.
  gather();
  std::optional<pending_answer> reads;
  auto first = send(product_of(a, b));
  traced().submit(product_of(freed, b), {},
                  reply_token<tensor>::from([](const tensor&) {},
                                            [&](const error&) { reads = send(product_of(c, b)); }));
  auto third = send(product_of(a, b));
  auto fourth = send(product_of(a, b, c));
  runtime().deallocate(freed.block());
  launch_gathered();
  closed.open();
  for (auto* answer : {&held, &first, &third, &fourth}) (void)answer_of(*answer);
  ASSERT_TRUE(reads);
  EXPECT_EQ(elements(answer_of(*reads)), matrix_of(product(product(p, q), q)));
}

TEST_P(batches, have_no_member_that_waits_for_another_one) {
  const auto p = any_permutation(random());
  const auto q = any_permutation(random());
  const auto a = values(p);
  const auto b = values(q);
  const auto x = any();
  const auto y = any();
  gather();
  auto other = send({.a = a, .b = b, .alpha = 2});
  // The third one waits for the first one, and once that is launched for the second one.
  auto first = send(product_of(a, b, x), {.bits = result_bits::as_if_alone});
  auto second = send(product_of(b, a, y));
  auto third = send(product_of(x, y));
  launch_gathered();
  for (auto* answer : {&other, &first, &second}) (void)answer_of(*answer);
  EXPECT_EQ(elements(answer_of(third)), matrix_of(product(product(p, q), product(q, p))));
  EXPECT_EQ(launched(), (sizes{1, 1, 1, 1}));
}

TEST_P(batches, do_not_hold_back_a_request_that_joins_none) {
  const auto [a, b, ab] = any_product();
  gate closed;
  closed.hold(traced().lane().stream());
  std::vector<pending_answer> answers;
  for (int i = 0; i < 5; ++i) answers.push_back(send(product_of(a, b)));
  EXPECT_EQ(traced().waiting(), 3U);
  auto alone = send(product_of(a, b), {.bits = result_bits::as_if_alone});
  EXPECT_EQ(traced().waiting(), 3U) << "it is launched while they wait";
  closed.open();
  for (auto& answer : answers) (void)answer_of(answer);
  EXPECT_EQ(elements(answer_of(alone)), ab);
  EXPECT_EQ(launched(), (sizes{1, 1, 1, 3}));
}

TEST_P(batches, of_many_senders_do_not_hold_back_a_request_that_joins_none) {
  const auto [a, b, ab] = any_product();
  gate closed;
  closed.hold(traced().lane().stream());
  std::vector<pending_answer> answers;
  for (std::uint64_t i = 0; i < 162; ++i) {
    answers.push_back(send(product_of(a, b), {}, request_sender{1 + i / 16}));
  }
  EXPECT_EQ(traced().waiting(), 160U);
  auto alone = send(product_of(a, b), {.bits = result_bits::as_if_alone}, request_sender{99});
  EXPECT_EQ(traced().waiting(), 160U) << "it is launched while they wait";
  closed.open();
  for (auto& answer : answers) (void)answer_of(answer);
  EXPECT_EQ(elements(answer_of(alone)), ab);
}

TEST_P(batches, are_of_products_that_take_little_memory) {
  const auto is_batched = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const auto x = tensor(runtime().allocate<float>(static_cast<std::size_t>(m * k), stream(), "x"))
                       .reshape({m, k});
    const auto y = tensor(runtime().allocate<float>(static_cast<std::size_t>(k * n), stream(), "y"))
                       .reshape({k, n});
    const auto before = launched().size();
    gather();
    auto first = send(product_of(x, y));
    auto second = send(product_of(x, y));
    launch_gathered();
    (void)answer_of(first);
    (void)answer_of(second);
    return launched().size() - before == 1;
  };
  EXPECT_TRUE(is_batched(64, 64, 64));
  EXPECT_FALSE(is_batched(513, 512, 513));
  EXPECT_FALSE(is_batched(2000, 2000, 1)) << "16 MB";
  // A host device computes one after the other, so a request that follows would wait too long.
  const bool on_host = runtime().device().id().kind == device_kind::host;
  EXPECT_EQ(is_batched(512, 512, 512), !on_host);
  EXPECT_EQ(is_batched(1000, 1000, 1), !on_host);
}

// Each failure is answered while a request is launched, and its receiver submits another one.

INSTANTIATE_TEST_SUITE_P(devices, batches, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
