// SPDX-License-Identifier: Apache-2.0
// Batches of clients that send their next request when they have the answer to the last one.
#include "operations/executor/batch_company.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <deque>
#include <vector>

namespace sluice::test {
namespace {

using operations::batch_company;

/// A lane that runs one batch after the other, and clients with one request in flight each. After
/// the end of a batch, its clients send their next requests one by one while the next batch runs.
class closed_loop {
 public:
  explicit closed_loop(std::size_t clients) : waiting_(clients) {}

  /// Runs batches, and returns the sizes of the last ones.
  std::vector<std::size_t> run(std::size_t batches, std::size_t last) {
    launch_some();
    while (sizes_.size() < batches) {
      auto returning = in_flight_.front();
      in_flight_.pop_front();
      launch_some();  // with what has waited
      for (; returning != 0; --returning) {
        ++waiting_;
        launch_some();
      }
    }
    return {sizes_.end() - static_cast<std::ptrdiff_t>(last), sizes_.end()};
  }

 private:
  void launch_some() {
    while (waiting_ != 0 && in_flight_.size() < 2) {
      const auto behind = in_flight_.empty() ? 0 : company_.last_size(plan_);
      if (behind != 0 && company_.expects_more(plan_, waiting_ + behind)) return;
      const auto size = std::min(waiting_, company_.largest_batch(plan_, waiting_, behind));
      company_.note_launch(plan_, size, waiting_, behind);
      waiting_ -= size;
      in_flight_.push_back(size);
      sizes_.push_back(size);
    }
  }

  struct empty_plan final : operation_plan {};
  empty_plan plan_;
  batch_company company_;
  std::size_t waiting_;
  std::deque<std::size_t> in_flight_;
  std::vector<std::size_t> sizes_;
};

TEST(batch_company, lets_two_halves_take_turns) {
  for (std::size_t clients = 2; clients <= 128; ++clients) {
    SCOPED_TRACE(clients);
    const auto sizes = closed_loop(clients).run(600, 200);
    EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), std::bit_ceil((clients + 1) / 2));
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      EXPECT_GE(sizes[i - 1] + sizes[i] + 1, clients) << "at most one waits for a third batch";
    }
  }
}

TEST(batch_company, has_equal_batches_if_half_of_the_clients_is_a_power_of_two) {
  for (std::size_t clients = 2; clients <= 128; clients *= 2) {
    SCOPED_TRACE(clients);
    for (const auto size : closed_loop(clients).run(600, 200)) {
      EXPECT_GE(size + 1, clients / 2);
    }
  }
}

TEST(batch_company, takes_all_requests_that_come_together) {
  struct empty_plan final : operation_plan {};
  const empty_plan plan;
  batch_company company;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(company.largest_batch(plan, 8, 0), 8U);
    company.note_launch(plan, 8, 8, 0);
  }
  company.note_launch(plan, 1, 1, 8);
  EXPECT_EQ(company.largest_batch(plan, 8, 0), 8U) << "half of nine, rounded up";
  company.note_launch(plan, 8, 32, 0);
  EXPECT_EQ(company.largest_batch(plan, 24, 8), 16U);
}

TEST(batch_company, expects_fewer_requests_when_clients_have_gone) {
  struct empty_plan final : operation_plan {};
  const empty_plan plan;
  batch_company company;
  company.note_launch(plan, 32, 32, 32);
  EXPECT_TRUE(company.expects_more(plan, 63));
  EXPECT_FALSE(company.expects_more(plan, 64));
  for (int i = 0; i < 61; ++i) company.note_launch(plan, 2, 2, 1);
  EXPECT_FALSE(company.expects_more(plan, 3));
  EXPECT_EQ(company.largest_batch(plan, 2, 1), 2U);
}

TEST(batch_company, expects_nothing_of_another_plan) {
  struct empty_plan final : operation_plan {};
  const empty_plan plan;
  const empty_plan other;
  batch_company company;
  company.note_launch(plan, 32, 32, 32);
  EXPECT_EQ(company.last_size(other), 0U);
  EXPECT_FALSE(company.expects_more(other, 1));
  EXPECT_EQ(company.largest_batch(other, 7, 0), 7U);
  company.note_other_launch();
  EXPECT_EQ(company.last_size(plan), 0U);
}

}  // namespace
}  // namespace sluice::test
