// SPDX-License-Identifier: Apache-2.0
// The order in which requests leave the queue, and the work to find the next one, while earlier
// requests hold many back.
#include "operations/executor/request_queue.hpp"

#include "tests/operations/executing.hpp"
#include "tests/operations/executor/planned_operation.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/executor.hpp>
#include <sluice/operations/operation_request.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class request_queue_test : public executor_test {
 protected:
  static constexpr request_sender low_sender{1};
  static constexpr request_sender innocent{2};
  static constexpr int innocent_label = -1;

  tensor words(std::uint32_t value, std::size_t count = 4) {
    return upload(runtime(), stream(), std::vector<std::uint32_t>(count, value));
  }
  /// Fills the lane with launches that wait for the gate.
  void fill_lane(gate& closed) {
    (void)run(test_executor(), planned{.x = words(0)});
    closed.hold(test_executor().lane().stream());
    const auto x = words(1);
    while (!test_executor().lane().full()) send({.x = x}, request_priority::low, low_sender, -2);
  }
  /// Sends a request. Its label joins `order` when it is answered, which is in the order of the
  /// launches.
  void send(planned operation, request_priority priority, request_sender sender, int label) {
    ++sent_;
    test_executor().submit(std::move(operation), {.priority = priority},
                           reply_token<tensor>::from(
                               [this, label](const tensor&) {
                                 order_.push_back(label);
                                 answer();
                               },
                               [this](const error& why) {
                                 ADD_FAILURE() << why.what();
                                 answer();
                               }),
                           sender);
  }
  void await_all() {
    for (test_executor().work(); answered_ != sent_; test_executor().work())
      waking_alarm()->await();
  }
  /// The number of requests with `label` that were launched before that of the innocent sender.
  [[nodiscard]] std::ptrdiff_t launched_before_innocent(int label) const {
    const auto end = std::find(order_.begin(), order_.end(), innocent_label);
    EXPECT_NE(end, order_.end());
    return std::count(order_.begin(), end, label);
  }
  /// `senders` send `each` requests that read x.
  void send_readers(const tensor& x, int senders, int each, int label) {
    for (int i = 0; i < senders * each; ++i) {
      send({.x = x}, request_priority::high, {100 + static_cast<std::uint64_t>(i / each)}, label);
    }
  }

 private:
  void answer() noexcept {
    ++answered_;
    waking_alarm()->ring();
  }
  plan_script script_;
  std::vector<int> order_;
  std::size_t sent_ = 0;
  std::atomic<std::size_t> answered_{0};
};

TEST_P(request_queue_test, a_high_priority_passes_the_held_back_requests_of_many_senders) {
  gate closed;
  fill_lane(closed);
  const auto x = words(1);
  for (int i = 0; i < 100; ++i) {
    send({.x = words(1), .y = x}, request_priority::low, low_sender, 1);
  }
  send_readers(x, 20, 16, 2);
  send({.x = words(1)}, request_priority::high, innocent, innocent_label);
  closed.open();
  await_all();
  EXPECT_EQ(launched_before_innocent(1), 0);
}

TEST_P(request_queue_test, a_high_priority_is_found_when_the_request_that_it_waits_for_has_left) {
  gate closed;
  fill_lane(closed);
  const auto x = words(1);
  const auto z = words(1);
  // All readers of x may be launched after the second of these, too.
  send({.x = words(1), .y = x}, request_priority::low, low_sender, 1);
  send({.x = words(1), .y = z}, request_priority::low, low_sender, 1);
  for (int i = 0; i < 100; ++i) {
    send({.x = words(1), .y = x}, request_priority::low, low_sender, 1);
  }
  send_readers(x, 20, 16, 2);
  send({.x = z}, request_priority::high, innocent, innocent_label);
  closed.open();
  await_all();
  EXPECT_EQ(launched_before_innocent(1), 2);
}

// Requests with hazards at random, of several senders and priorities: one that writes doubles what
// it writes, so the results depend on the order.
TEST_P(request_queue_test, random_requests_keep_the_order_of_their_hazards) {
  auto generator = make_generator();
  const auto draw = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(generator);
  };
  constexpr std::size_t count = 6;  // words of a block
  gate closed;
  fill_lane(closed);
  std::vector<tensor> blocks;
  std::vector<std::vector<std::uint32_t>> expected;
  for (int i = 0; i < 12; ++i) {
    blocks.push_back(words(1, count));
    expected.emplace_back(count, 1);
  }
  for (int i = 0; i < 2000; ++i) {
    const auto x = draw(blocks.size());
    const auto y = draw(blocks.size() - 1);
    const auto written = y >= x ? y + 1 : y;
    const auto begin = draw(count - 2);
    const auto end = begin + 2;
    for (auto k = begin; k < end; ++k) {
      expected[written][k] = 2 * expected[written][k] + expected[x][k];
    }
    const auto part = [&](std::size_t number) {
      return blocks[number].slice(0, static_cast<std::int64_t>(begin),
                                  static_cast<std::int64_t>(end));
    };
    send({.x = part(x), .y = part(written)}, static_cast<request_priority>(draw(3)), {draw(5)}, 3);
  }
  closed.open();
  await_all();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(download(blocks[i].as<std::uint32_t>(), stream()), expected[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(devices, request_queue_test, ::testing::Values("host"), parameter_name);

/// Reads and writes tensors, and is never launched.
class queued_request final : public detail::operation_request {
 public:
  queued_request(tensor read, tensor written, request_priority priority,
                 request_sender client) noexcept
      : operation_request(descriptor_of(operation_type<planned>{}), {.priority = priority}, client,
                          {}),
        operands_{operand(std::move(read)), operand(std::move(written))} {
    for (std::size_t i = 0; i < uses_.size(); ++i) uses_[i].operand.value = &operands_[i];
    uses_[1].access = access_kind::write;
  }

  const void* operation() const noexcept override { return nullptr; }
  std::optional<error> infer() noexcept override { return std::nullopt; }
  std::span<const inference::use> uses() const noexcept override { return uses_; }
  void add_operand(const tensor&, bool) override {}
  element_type type() const noexcept override { return element_type::u8; }
  std::unique_ptr<detail::launch_continuation> launch(
      const kernel_envelope&, lane&, operands&&, const launch_options&,
      std::shared_ptr<operation_launch>) noexcept override {
    return nullptr;
  }
  std::size_t bytes() const noexcept override { return 1; }
  void wait_for(std::shared_ptr<const void> job) noexcept { plan_job = std::move(job); }

 private:
  void drop_operands() noexcept override {}

  std::array<operand, 2> operands_;
  std::array<inference::use, 2> uses_{};
};

class held_back_requests : public ::testing::Test {
 protected:
  tensor bytes(std::size_t count = 1) {
    return runtime_.allocate<std::uint8_t>(count, stream_, "bytes");
  }
  void add(tensor read, tensor written, request_priority priority, std::uint64_t sender) {
    auto request = detail::make_owned<queued_request, detail::operation_request>(
        queue_.memory(), std::move(read), std::move(written), priority, request_sender{sender});
    queue_.add(request);
  }
  /// Adds a request that waits for a plan; nullptr: for none.
  void add_planned(std::shared_ptr<const void> job, request_priority priority, std::uint64_t sender,
                   std::uint64_t id = 0) {
    auto request = detail::make_owned<queued_request, detail::operation_request>(
        queue_.memory(), tensor(), tensor(), priority, request_sender{sender});
    static_cast<queued_request&>(*request).wait_for(std::move(job));
    request->options.id = id;
    queue_.add(request);
  }
  /// Takes the next request. Returns its number.
  std::uint64_t take_number() {
    const auto next = queue_.next();
    if (!next) return 0;
    return queue_.take(next)->number;
  }
  /// Takes the next request. Returns its sender.
  std::uint64_t take() {
    const auto next = queue_.next();
    if (!next) return 0;
    return queue_.take(next)->sender.id;
  }
  operations::request_queue& queue() { return queue_; }

 private:
  device_runtime runtime_{open_host_device()};
  stream stream_ = runtime_.create_stream();
  operations::request_queue queue_{{1U << 20U, 1U << 30U, 1U << 20U, 1U << 30U}};
};

// Each writer waits for the one before it, and then many readers for the last of them.
TEST_F(held_back_requests, are_visited_a_bounded_number_of_times) {
  constexpr std::size_t count = 4000;
  const auto x = bytes();
  for (std::size_t i = 0; i < count; ++i) add({}, x, request_priority::low, 1);
  for (std::size_t i = 0; i < count; ++i) add(x, {}, request_priority::high, 2 + i % 10);
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(take(), 1U);
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(take(), 2 + i % 10);
  EXPECT_EQ(take(), 0U);
  EXPECT_LE(queue().visits(), 3 * 2 * count);
}

// The requests of the hostile senders wait for all of the low priority. Whenever one of these
// leaves, another one is found to hold them back.
TEST_F(held_back_requests, delay_another_sender_by_few_launches) {
  constexpr std::size_t low = 400;
  constexpr std::size_t hostile = 3000;
  constexpr std::uint64_t senders = 20;
  constexpr std::uint64_t innocent = 1000;
  const auto block = bytes(low);
  const auto z = bytes();
  // The last one of them that is added is the first one to leave.
  for (std::size_t i = 0; i < low; ++i) {
    const auto begin = static_cast<std::int64_t>(i);
    add({}, block.slice(0, begin, begin + 1),
        i < low / 2 ? request_priority::low : request_priority::normal, 1);
  }
  add({}, z, request_priority::normal, 2);
  for (std::size_t i = 0; i < hostile; ++i) {
    add(block, {}, request_priority::high, 100 + i % senders);
  }
  add(z, {}, request_priority::high, innocent);
  std::size_t before = 0;
  std::uint64_t requests = 0;
  for (; requests != 2; requests = take()) ASSERT_LE(++before, low + 1);
  // Each of the hostile requests loses its first blocker at once.
  EXPECT_LE(queue().visits(), 400 * before + 2 * hostile);
  std::size_t after = 0;
  for (; requests != innocent; requests = take()) ASSERT_LE(++after, 2 * senders);
  while (take() != 0) continue;
  EXPECT_TRUE(queue().empty());
}

using requests_with_plans = held_back_requests;

std::vector<std::shared_ptr<const void>> make_jobs(std::size_t count) {
  std::vector<std::shared_ptr<const void>> jobs(count);
  std::generate(jobs.begin(), jobs.end(), [] { return std::make_shared<int>(); });
  return jobs;
}

TEST_F(requests_with_plans, are_visited_once_when_they_get_them) {
  constexpr std::size_t count = 3000;
  const auto jobs = make_jobs(count);
  for (const auto& job : jobs) add_planned(job, request_priority::normal, 1);
  for (std::size_t i = 0; i < count; ++i) add_planned(nullptr, request_priority::normal, 1);
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < count / 2; ++i) {
    queue().give_plan(jobs[i].get(), nullptr);
    ASSERT_EQ(take_number(), ++number);
  }
  // Those with plans wait, too.
  for (std::size_t i = count / 2; i < count; ++i) {
    queue().give_plan(jobs[count / 2 + count - 1 - i].get(), nullptr);
  }
  EXPECT_LE(queue().visits(), 3 * count);
  while (!queue().empty()) ASSERT_EQ(take_number(), ++number);
}

TEST_F(requests_with_plans, are_visited_once_when_these_cannot_be_made) {
  constexpr std::size_t count = 3000;
  const auto jobs = make_jobs(count);
  for (const auto& job : jobs) add_planned(job, request_priority::normal, 1);
  for (std::size_t i = count; i-- > 0;) {
    const auto requests = queue().take_waiting_for(jobs[i].get());
    ASSERT_EQ(requests.size(), 1U);
    ASSERT_EQ(requests.front()->number, i + 1);
  }
  EXPECT_LE(queue().visits(), count);
  EXPECT_TRUE(queue().empty());
}

// Plans are given and fail, and requests are cancelled, in random order.
TEST_F(requests_with_plans, keep_their_order) {
  auto generator = make_generator();
  const auto draw = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(generator);
  };
  const auto jobs = make_jobs(30);
  constexpr request_sender sender{1};
  struct expectation {
    const void* job;
    std::uint64_t number;
    std::size_t priority;
    std::uint64_t id;
  };
  std::vector<expectation> waiting;
  const auto numbers_of = [&](const auto& predicate) {
    std::vector<std::uint64_t> numbers;
    for (const auto& r : waiting) {
      if (predicate(r)) numbers.push_back(r.number);
    }
    return numbers;
  };
  const auto numbers_in = [](const operations::request_queue::list& requests) {
    std::vector<std::uint64_t> numbers;
    for (const auto& r : requests) numbers.push_back(r->number);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  };
  const auto draw_waiting = [&]() -> expectation& {
    return waiting[draw(waiting.size())];
  };
  for (int i = 0; i < 4000; ++i) {
    const auto action = waiting.empty() ? 0 : draw(12);
    if (action < 6) {
      const auto priority = draw(3);
      const auto number = queue().last_number() + 1;
      const auto& job = draw(3) == 0 ? nullptr : jobs[draw(jobs.size())];
      const auto id = 1 + draw(200);
      add_planned(job, static_cast<request_priority>(priority), sender.id, id);
      waiting.push_back({job.get(), number, priority, id});
    } else if (action < 9) {
      const auto* const job = draw_waiting().job;
      if (job == nullptr) continue;
      queue().give_plan(job, nullptr);
      for (auto& r : waiting) {
        if (r.job == job) r.job = nullptr;
      }
    } else if (action < 10) {
      const auto* const job = draw_waiting().job;
      if (job == nullptr) continue;
      const auto requests = queue().take_waiting_for(job);
      ASSERT_EQ(numbers_in(requests), numbers_of([&](const auto& r) { return r.job == job; }));
      std::erase_if(waiting, [&](const auto& r) { return r.job == job; });
    } else if (action < 11) {
      const auto id = draw_waiting().id;
      const auto requests = queue().take_with_id(sender, id);
      ASSERT_EQ(numbers_in(requests), numbers_of([&](const auto& r) { return r.id == id; }));
      std::erase_if(waiting, [&](const auto& r) { return r.id == id; });
    } else {
      const auto number = take_number();
      std::vector<std::uint64_t> first;
      for (std::size_t priority = 0; first.empty() && priority < 3; ++priority) {
        first =
            numbers_of([&](const auto& r) { return r.job == nullptr && r.priority == priority; });
      }
      ASSERT_EQ(number, first.empty() ? 0 : first.front());
      std::erase_if(waiting, [&](const auto& r) { return r.number == number; });
    }
    ASSERT_EQ(queue().size(), waiting.size());
    ASSERT_EQ(queue().status({}).planning, numbers_of([](const auto& r) { return r.job; }).size());
  }
  for (const auto& job : jobs) queue().give_plan(job.get(), nullptr);
  const auto requests = queue().take_all();
  auto expected = waiting;
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.priority < b.priority; });
  ASSERT_EQ(requests.size(), expected.size());
  auto next = expected.begin();
  for (const auto& r : requests) ASSERT_EQ(r->number, (next++)->number);
}

}  // namespace
}  // namespace sluice::test
