// SPDX-License-Identifier: Apache-2.0
// A flood of requests from one sender beside a slow trickle from another.
#include "runtime/host/annotations.hpp"
#include "tests/operations/executing.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/heap.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/runtime/memory_adaptors.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// The requests of the flood in a round, fewer under a tool that makes each many times slower.
std::size_t requests_of_a_round() {
  return host::thread_sanitizer_on || under_compute_sanitizer() ? 5'000 : 50'000;
}

/// Counts the replies to requests.
class reply_counts {
 public:
  struct request {
    std::atomic<unsigned> succeeded{0};
    std::atomic<unsigned> overloaded{0};
    std::atomic<unsigned> others{0};
  };

  reply_counts(std::size_t requests, std::shared_ptr<alarm> rung)
      : state_(std::make_shared<state>(requests, std::move(rung))) {}

  /// The token of the next request.
  [[nodiscard]] reply_token<tensor> token() {
    const auto i = sent_++;
    return reply_token<tensor>::from(
        [state = state_, i](const tensor&) {
          ++state->requests[i].succeeded;
          state->answer();
        },
        [state = state_, i](const error& why) {
          ++(why.code() == errc::overloaded ? state->requests[i].overloaded
                                            : state->requests[i].others);
          state->answer();
        });
  }
  [[nodiscard]] std::size_t sent() const noexcept { return sent_; }
  [[nodiscard]] std::size_t replies() const noexcept { return state_->replies.load(); }
  [[nodiscard]] const request& operator[](std::size_t i) const { return state_->requests[i]; }

 private:
  struct state {
    state(std::size_t count, std::shared_ptr<alarm> to_ring)
        : requests(count), rung(std::move(to_ring)) {}
    void answer() noexcept {
      ++replies;
      rung->ring();
    }
    std::vector<request> requests;
    std::shared_ptr<alarm> rung;
    std::atomic<std::size_t> replies{0};
  };
  std::shared_ptr<state> state_;
  std::size_t sent_ = 0;
};

class flood : public executor_test {
 protected:
  static constexpr request_sender flooder{1};
  static constexpr request_sender trickler{2};
  static constexpr std::size_t row_size = 4;  // elements of an operand
  static constexpr std::size_t inputs = 64;
  static constexpr std::uint32_t untouched = 0xabababab;

  struct totals {
    std::size_t requests = 0;
    std::size_t succeeded = 0;
    std::size_t replies = 0;
    std::size_t trickled = 0;
  };

  runtime_options options_of_runtime() override {
    runtime_options options;
    options.resource = make_pool_resource(make_statistics_resource(make_async_resource(), driver_));
    return options;
  }
  void SetUp() override {
    executor_test::SetUp();
    if (IsSkipped()) return;
    for (auto& v : x_values_) v = static_cast<std::uint32_t>(generator_());
    x_ = tensor(upload(runtime(), stream(), x_values_)).reshape({inputs, row_size});
    // A kernel must not be loaded behind a closed gate.
    (void)run(test_executor(), add(x_at(0), x_at(1)));
  }
  void TearDown() override {
    x_ = {};
    executor_test::TearDown();
  }

  [[nodiscard]] tensor x_at(std::size_t i) const {
    return x_.select(0, static_cast<std::int64_t>(i % inputs));
  }
  /// The sum of input i and the next one.
  [[nodiscard]] std::vector<std::uint32_t> sum_at(std::size_t i) const {
    std::vector<std::uint32_t> sum(row_size);
    for (std::size_t k = 0; k < row_size; ++k) {
      sum[k] = x_values_[i % inputs * row_size + k] + x_values_[(i + 1) % inputs * row_size + k];
    }
    return sum;
  }
  [[nodiscard]] std::size_t draw(std::size_t first, std::size_t last) {
    return std::uniform_int_distribution<std::size_t>(first, last)(generator_);
  }

  /// Floods `executor`. The lane is full and stands still until a random moment of the round:
  /// before it, exactly `share` requests of the flood find a place. Then the lane works through the
  /// queue while the flood goes on.
  void run_round(executor& executor, std::size_t share, totals& totals_of_rounds) {
    const auto count = requests_of_a_round();
    const auto opening = draw(count / 4, 3 * count / 4);
    const auto y = tensor(upload(runtime(), stream(), std::vector(count * row_size, untouched)))
                       .reshape({static_cast<std::int64_t>(count), row_size});
    reply_counts replies(count, waking_alarm());
    std::vector<pending_answer> trickle;
    std::vector<std::size_t> trickled;  // the inputs of the trickle

    gate closed;
    closed.hold(executor.lane().stream());
    std::vector<pending_answer> before;
    while (!executor.lane().full()) before.push_back(submit(executor, add(x_at(0), x_at(1))));

    auto next_trickle = draw(0, 500);
    for (std::size_t i = 0; i < count; ++i) {
      if (i == opening) {
        EXPECT_EQ(executor.status().requests, share + trickle.size());
        EXPECT_EQ(replies.replies(), opening - share);
        closed.open();
      }
      executor.submit(add(x_at(i), x_at(i + 1), y.select(0, static_cast<std::int64_t>(i))), {},
                      replies.token(), flooder);
      if (i == next_trickle) {
        next_trickle += draw(200, 500);
        trickled.push_back(draw(0, inputs - 1));
        trickle.push_back(
            submit(executor, add(x_at(trickled.back()), x_at(trickled.back() + 1)), {}, trickler));
      }
      // As an actor does when the lane has room.
      if (i > opening && i % 8 == 0) executor.work();
    }
    for (executor.work(); replies.replies() < count; executor.work()) waking_alarm()->await();

    for (auto& a : before) (void)wait(executor, a);
    // The trickle is never refused, and its answers are exact.
    for (std::size_t i = 0; i < trickle.size(); ++i) {
      const auto sum = wait(executor, trickle[i]);
      ASSERT_EQ(download(sum.as<std::uint32_t>(), stream()), sum_at(trickled[i])) << i;
    }
    EXPECT_EQ(executor.waiting(), 0U);
    EXPECT_EQ(executor.status().bytes, 0U);
    // Now nothing is left that could reply a second time.
    await([&] { return executor.lane().in_flight() == 0; });

    const auto written = download(y.reshape({-1}).as<std::uint32_t>(), stream());
    for (std::size_t i = 0; i < count; ++i) {
      const auto& r = replies[i];
      ASSERT_EQ(r.succeeded + r.overloaded, 1U) << "request " << i;
      ASSERT_EQ(r.others, 0U) << "request " << i;
      const auto expected =
          r.succeeded == 1 ? sum_at(i) : std::vector<std::uint32_t>(row_size, untouched);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                             written.begin() + static_cast<std::ptrdiff_t>(i * row_size)))
          << "request " << i
          << (r.succeeded == 1 ? " has a wrong result" : " was refused, but ran");
      totals_of_rounds.succeeded += r.succeeded;
    }
    totals_of_rounds.requests += count;
    totals_of_rounds.replies += replies.replies();
    totals_of_rounds.trickled += trickle.size();
  }

  void flood_all(const executor_options& options, std::size_t share, std::size_t rounds) {
    const auto executor = make_executor(options);
    (void)run(*executor, add(x_at(0), x_at(1)));  // has the kernel loaded
    totals sum;
    // Everything grows to its size.
    ASSERT_NO_FATAL_FAILURE(run_round(*executor, share, sum));
    ASSERT_NO_FATAL_FAILURE(run_round(*executor, share, sum));
    rest();
    const auto before = runtime().statistics();
    const auto driver_before = driver_->counters();
    const auto heap_before = heap_in_use();
    sum = {};
    for (std::size_t i = 0; i < rounds; ++i) {
      ASSERT_NO_FATAL_FAILURE(run_round(*executor, share, sum));
    }
    rest();
    const auto heap_after = heap_in_use();
    const auto after = runtime().statistics();
    const auto driver_after = driver_->counters();
    std::printf(
        "%s: %zu of %zu requests succeeded beside a trickle of %zu; heap %zu, then %zu bytes\n",
        GetParam().c_str(), sum.succeeded, sum.requests, sum.trickled, heap_before, heap_after);
    EXPECT_EQ(sum.replies, sum.requests);
    EXPECT_EQ(sum.requests, rounds * requests_of_a_round());
    EXPECT_EQ(executor->waiting(), 0U);
    EXPECT_EQ(after.blocks, before.blocks);
    EXPECT_EQ(after.bytes_outstanding, before.bytes_outstanding);
    EXPECT_EQ(after.references, before.references);
    EXPECT_EQ(after.points, before.points);
    EXPECT_EQ(after.leases, 0U);
    EXPECT_EQ(after.releases_pending, 0U);
    EXPECT_EQ(after.streams, before.streams);
    EXPECT_EQ(driver_after.bytes.current, driver_before.bytes.current);
    EXPECT_EQ(driver_after.allocations.current, driver_before.allocations.current);
    // The memory of the host device is on the heap, and the last round may have left some of it
    // there. A leak of the smallest allocation for each request would take 6.4 MB or more.
    EXPECT_LE(heap_after, heap_before + (std::size_t{4} << 20U));
  }

 private:
  /// Waits for the launches of this thread, and gives the driver all memory that nothing refers to.
  void rest() {
    stream().synchronize();
    do {
      (void)runtime().trim_memory();
    } while (runtime().statistics().releases_pending != 0);
  }

  std::mt19937_64 generator_ = make_generator();
  std::shared_ptr<memory_statistics> driver_ = std::make_shared<memory_statistics>();
  std::vector<std::uint32_t> x_values_ = std::vector<std::uint32_t>(inputs * row_size);
  tensor x_;
};

TEST_P(flood, bounded_in_requests_leaves_room_for_a_trickle) {
  constexpr std::size_t rounds = 20;  // a million requests
  flood_all({.max_waiting = 1000}, 500, rounds);
}

TEST_P(flood, bounded_in_bytes_leaves_room_for_a_trickle) {
  // The size of a request, from one that waits.
  std::size_t bytes = 0;
  {
    gate closed;
    closed.hold(test_executor().lane().stream());
    std::vector<pending_answer> answers;
    while (test_executor().waiting() == 0)
      answers.push_back(submit(test_executor(), add(x_at(0), x_at(1))));
    bytes = test_executor().status().bytes;
    closed.open();
    for (auto& a : answers) (void)wait(a);
  }
  flood_all({.max_waiting_bytes = 2 * 300 * bytes}, 300, 4);
}

INSTANTIATE_TEST_SUITE_P(devices, flood, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
