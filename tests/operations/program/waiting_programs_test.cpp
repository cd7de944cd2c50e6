// SPDX-License-Identifier: Apache-2.0
// The host memory that waiting runs of programs keep alive.
#include "tests/operations/program/programs.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

class waiting_programs : public programs {
 protected:
  static constexpr request_sender alice{1};
  static constexpr request_sender bob{2};

  void SetUp() override {
    programs::SetUp();
    if (IsSkipped()) return;
    x_ = numbers({1 << 18});
    // Nothing may be loaded behind a closed gate.
    (void)results_of({.what = with_constant(), .inputs = {x_}});
  }
  void TearDown() override {
    x_ = {};
    programs::TearDown();
  }
  /// x plus a constant of 1 MiB of its own in host memory.
  program with_constant(std::size_t elements = std::size_t{1} << 18U) const {
    program_builder p;
    const auto values = p.constant("c", host_tensor(std::vector<float>(elements, 1)));
    return std::move(p).build({p.add("sum", add(p.input("x"), values))});
  }
  /// Steps with long names.
  static program with_names(std::size_t steps, std::size_t length) {
    program_builder p;
    program_value last = p.input("x");
    for (std::size_t i = 0; i < steps; ++i) {
      last = p.add(std::string(length, 'n'), affine{.x = last});
    }
    return std::move(p).build({last});
  }
  /// Fills the lane of `executor` behind a closed gate.
  std::vector<pending_answer> fill_lane(executor& executor, gate& closed) {
    const auto x = small(1);
    closed.hold(executor.lane().stream());
    std::vector<pending_answer> answers;
    while (!executor.lane().full()) answers.push_back(submit(executor, affine{.x = x}));
    return answers;
  }
  [[nodiscard]] const tensor& x() const { return x_; }
  /// What `request` adds to the bytes of the queue while it waits.
  std::size_t counted(sluice::run request, request_sender sender = alice) {
    const auto before = test_executor().status().bytes;
    (void)sent_.emplace_back(submit(test_executor(), std::move(request), {}, sender));
    return test_executor().status().bytes - before;
  }
  void finish(gate& closed, std::vector<pending_answer>& others) {
    closed.open();
    for (auto& one : others) (void)wait(one);
    for (auto& one : sent_) (void)wait(one);
    EXPECT_EQ(test_executor().status().bytes, 0U);
  }

 private:
  tensor x_;
  std::vector<pending<tensors>> sent_;
};

TEST_P(waiting_programs, count_their_constants_once) {
  gate closed;
  auto others = fill_lane(test_executor(), closed);
  const auto first = with_constant();
  const auto second = with_constant();
  EXPECT_GT(counted({.what = first, .inputs = {x()}}), mebibyte);
  EXPECT_LT(counted({.what = first, .inputs = {x()}}), mebibyte / 16);
  EXPECT_LT(counted({.what = first, .inputs = {x()}}, bob), mebibyte / 16);
  EXPECT_GT(counted({.what = second, .inputs = {x()}}), mebibyte);
  finish(closed, others);
}

// A message has no queue that knows what others have counted.
TEST_P(waiting_programs, count_once_in_all_messages_together) {
  constexpr std::size_t most = 32 * mebibyte;
  const auto small = with_constant();
  const auto large = with_constant(10 * mebibyte);  // of 40 MiB
  EXPECT_EQ(detail::host_bytes_of_share(large), most);
  EXPECT_GT(detail::host_bytes_of_share(small), mebibyte);
  std::size_t sum = 0;
  std::vector<program> messages;
  for (int i = 0; i < 1000; ++i) sum += detail::host_bytes_of_share(messages.emplace_back(large));
  EXPECT_LE(sum, most);
  EXPECT_GE(sum, most / 100 * 99);
}

TEST_P(waiting_programs, count_names_and_inferences) {
  gate closed;
  auto others = fill_lane(test_executor(), closed);
  EXPECT_GT(counted({.what = with_names(100, 10'000), .inputs = {x().slice(0, 0, 1)}}), 1'000'000U);
  EXPECT_GT(counted({.what = with_names(1000, 1), .inputs = {x().slice(0, 0, 1)}}), 500'000U);
  finish(closed, others);
}

TEST_P(waiting_programs, are_bounded_with_their_constants) {
  const auto bounded = make_executor({.max_waiting_bytes = 32 * mebibyte});
  (void)run(*bounded, affine{.x = small(1)});
  const auto large = with_constant(std::size_t{1} << 22U);
  const auto y = numbers({1 << 22});
  gate closed;
  auto others = fill_lane(*bounded, closed);
  std::vector<pending<tensors>> sent;
  std::size_t refused = 0;
  for (int i = 0; i < 40; ++i) {
    sent.push_back(
        submit(*bounded, sluice::run{.what = with_constant(), .inputs = {x()}}, {}, alice));
    if (sent.back().answered()) ++refused;
  }
  EXPECT_GE(refused, 24U) << "a sender takes half of the bytes";
  EXPECT_LT(refused, 32U);
  // A program that is larger than the share of its sender counts as a quarter of it.
  for (int i = 0; i < 10; ++i) {
    sent.push_back(submit(*bounded, sluice::run{.what = large, .inputs = {y}}, {}, bob));
    EXPECT_FALSE(sent.back().answered());
  }
  closed.open();
  for (auto& one : others) (void)wait(*bounded, one);
  for (auto& one : sent) {
    try {
      (void)wait(*bounded, one);
    } catch (const error& why) {
      EXPECT_EQ(why.code(), errc::overloaded);
    }
  }
  EXPECT_EQ(bounded->status().bytes, 0U);
}

INSTANTIATE_TEST_SUITE_P(devices, waiting_programs, ::testing::Values("host"), parameter_name);

}  // namespace
}  // namespace sluice::test
