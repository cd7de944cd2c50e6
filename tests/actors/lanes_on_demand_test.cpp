// SPDX-License-Identifier: Apache-2.0
// Library actors whose lanes are opened while there is work for them.
#include "tests/actors/session_test.hpp"
#include "tests/envelope/recording_trace.hpp"
#include "tests/operations/manual_timer.hpp"
#include "tests/support/gate.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class actor_with_lanes_on_demand : public named_device_test {
 protected:
  static constexpr std::chrono::seconds idle{10};

  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    session_ = std::make_unique<session>(open_device(GetParam()),
                                         device_service_options{.max_in_flight = max_in_flight,
                                                                .lanes_per_actor = 0,
                                                                .max_lanes_on_demand = 3,
                                                                .high_priority_lanes = 1,
                                                                .idle_lane_timeout = idle,
                                                                .timer = timer_});
    device_ = std::make_unique<scoped_device>(session_->system(), session_->service(), trace_);
  }
  void TearDown() override {
    device_.reset();
    if (session_) session_->expect_nothing_left();
  }

  [[nodiscard]] session& s() { return *session_; }
  [[nodiscard]] blas_actor blas() { return device_->blas(); }
  [[nodiscard]] fft_actor device_fft() { return device_->fft(); }
  [[nodiscard]] manual_timer& timer() { return *timer_; }
  [[nodiscard]] std::size_t streams() { return s().runtime().statistics().streams; }
  /// The streams of the launches so far.
  [[nodiscard]] std::set<stream_id> streams_of_launches() const {
    std::set<stream_id> streams;
    for (const auto& call : trace_->calls()) streams.insert(call.stream);
    return streams;
  }
  /// c = added + c, with a one.
  static caf::message add(double added, const gpu_ref<double>& x, const gpu_ref<double>& c,
                          request_priority priority = request_priority::normal) {
    return caf::make_message(
        dgemm{.m = 1, .n = 1, .k = 1, .alpha = added, .a = x, .b = x, .beta = 1, .c = c},
        request_options{.priority = priority, .bits = result_bits::as_if_alone});
  }
  gpu_ref<double> put(double value) { return s().put(std::vector<double>{value}); }
  [[nodiscard]] double get(const gpu_ref<double>& source) { return s().get(source).front(); }

  using pending_answers = std::shared_ptr<answers<gpu_ref<double>>>;
  pending_answers send(std::vector<caf::message> requests) {
    return s().send<gpu_ref<double>>(untyped(blas()), std::move(requests));
  }
  /// Requests that wait on the first lane until `g` is open.
  pending_answers flood(gate& g, const gpu_ref<double>& x, const gpu_ref<double>& sum) {
    (void)send({add(0, x, put(0))})->wait();
    s().hold(g, sum);
    auto sent = send(std::vector<caf::message>(max_in_flight + 99, add(1, x, sum)));
    await([&] { return s().ask<queue_status>(blas(), get_queue_status{}).requests == 99; });
    return sent;
  }

 private:
  std::shared_ptr<manual_timer> timer_ = std::make_shared<manual_timer>();
  std::shared_ptr<recording_trace> trace_ = std::make_shared<recording_trace>();
  std::unique_ptr<session> session_;
  std::unique_ptr<scoped_device> device_;
};

TEST_P(actor_with_lanes_on_demand, count_the_plans_of_lanes_that_have_been_closed) {
  const auto fft = device_fft();
  const auto x = s().put(std::vector<float>(8, 1));
  (void)s().ask<tensor>(fft, rfft{.x = x});
  const auto open_streams = streams();
  const auto plans_made = [&] {
    return s().ask<queue_status>(fft, get_queue_status{}).plans.made;
  };
  // The other lane takes requests once it has the plan, too.
  await([&] {
    (void)s().ask<tensor>(fft, rfft{.x = x}, request_options{.priority = request_priority::high});
    return plans_made() == 2;
  });
  await([&] {
    timer().advance(idle);
    return streams() == open_streams;
  });
  EXPECT_EQ(plans_made(), 2U);
}

/// On a GPU, a lane may not be opened while a gate is closed: libraries wait for the device.
class lanes_beside_a_flood : public actor_with_lanes_on_demand {};

TEST_P(lanes_beside_a_flood, are_opened_for_other_senders_and_closed_when_idle) {
  const auto x = put(1);
  const auto sum = put(0);
  (void)send({add(0, x, sum)})->wait();
  const auto before = streams();
  gate g;
  const auto held = flood(g, x, sum);
  std::vector<pending_answers> others;
  std::vector<gpu_ref<double>> sums;
  const auto any_answered = [&] {
    for (const auto& other : others) {
      if (other->answered() != 0) return true;
    }
    return false;
  };
  // The first ones wait behind the flood. At last a lane is open, and one is answered.
  while (!any_answered()) {
    sums.push_back(put(1));
    others.push_back(send({add(2, x, sums.back())}));
    std::this_thread::yield();
  }
  EXPECT_EQ(held->answered(), 0U);
  EXPECT_GT(streams(), before);
  g.open();
  for (const auto& a : held->wait()) EXPECT_TRUE(succeeded(a));
  for (const auto& other : others) EXPECT_TRUE(succeeded(other->wait().front()));
  EXPECT_EQ(get(sum), max_in_flight + 99);
  for (const auto& each : sums) EXPECT_EQ(get(each), 3);
  EXPECT_GE(streams_of_launches().size(), 2U);

  // A lane that handled a message since the last look gets a second one.
  await([&] {
    timer().advance(idle);
    return streams() == before;
  });
  (void)send({add(5, x, sum)})->wait();
  EXPECT_EQ(get(sum), max_in_flight + 104);
}

TEST_P(lanes_beside_a_flood, take_the_first_request_of_high_priority) {
  gate g;
  const auto x = put(1);
  const auto sum = put(0);
  const auto held = flood(g, x, sum);
  const auto other_sum = put(5);
  EXPECT_TRUE(succeeded(send({add(2, x, other_sum, request_priority::high)})->wait().front()));
  EXPECT_EQ(held->answered(), 0U);
  g.open();
  for (const auto& a : held->wait()) EXPECT_TRUE(succeeded(a));
  EXPECT_EQ(get(other_sum), 7);
}

TEST_P(lanes_beside_a_flood, end_with_their_actor_while_they_are_opened) {
  for (int round = 0; round < 20; ++round) {
    auto actor = spawn_blas(s().system(), s().service());
    const auto x = put(1);
    std::vector<pending_answers> floods;
    for (int i = 0; i < 60; ++i) {
      floods.push_back(s().send<gpu_ref<double>>(untyped(actor),
                                                 std::vector<caf::message>(8, add(1, x, put(1)))));
    }
    if (round % 3 == 0) s().end(actor);
    if (round % 3 == 1) s().end(actor, caf::exit_reason::kill);
    actor = nullptr;
    for (const auto& each : floods) {
      (void)each->wait();
      EXPECT_EQ(each->replies(), 8U);
    }
  }
}

TEST_P(actor_with_lanes_on_demand, keep_the_order_of_each_sender_under_load) {
  constexpr std::size_t clients = 12;
  constexpr std::size_t rounds = 40;
  const auto x = put(1);
  std::vector<std::thread> threads;
  std::array<double, clients> expected{};
  std::array<gpu_ref<double>, clients> sums;
  for (auto& sum : sums) sum = put(0);
  std::atomic<bool> all_succeeded{true};
  for (std::size_t i = 0; i < clients; ++i) {
    threads.emplace_back([&, i, seed = s().number<unsigned>(0, 1U << 30U)] {
      std::mt19937 generator(seed);
      caf::scoped_actor self{s().system()};
      for (std::size_t round = 0; round < rounds; ++round) {
        const auto send_one = [&](double added, double factor) {
          const request_options options{
              .reply = generator() % 2 == 0 ? reply_on::enqueued : reply_on::finished,
              .priority = generator() % 4 == 0 ? request_priority::high : request_priority::normal};
          return request(self, blas(), caf::infinite,
                         dgemm{.m = 1,
                               .n = 1,
                               .k = 1,
                               .alpha = added,
                               .a = x,
                               .b = x,
                               .beta = factor,
                               .c = sums[i]},
                         options);
        };
        std::vector<decltype(send_one(0, 0))> sent;
        const auto burst = 1 + generator() % 20;
        for (std::size_t j = 0; j < burst; ++j) {
          // c = 2 c + added: the order matters.
          const auto added = static_cast<double>(1 + generator() % 9);
          const double factor = j == 0 ? 0 : 2;
          sent.push_back(send_one(added, factor));
          expected[i] = factor * expected[i] + added;
        }
        for (auto& answer : sent) {
          answer.receive([](const gpu_ref<double>&) {},
                         [&](const caf::error&) { all_succeeded = false; });
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(all_succeeded);
  for (std::size_t i = 0; i < clients; ++i) EXPECT_EQ(get(sums[i]), expected[i]);
}

/// A client with eight products on their way, which keep a GPU busy for a while each.
class lanes_of_one_sender : public actor_with_lanes_on_demand {
 protected:
  static constexpr std::int64_t size = 1024;

  void SetUp() override {
    actor_with_lanes_on_demand::SetUp();
    if (IsSkipped()) return;
    values_.resize(size * size);
    for (auto& value : values_) value = static_cast<double>(s().number(-3, 3));
    a_ = s().put(values_);
    client_ = std::make_unique<caf::scoped_actor>(s().system());
  }
  void TearDown() override {
    client_.reset();
    on_their_way_.clear();
    a_ = last_result_ = {};
    actor_with_lanes_on_demand::TearDown();
  }

  /// Sends a · a, or c = a · a + beta · c. Receives the oldest of eight.
  void send_product(const gpu_ref<double>& c = {}, double beta = 0) {
    on_their_way_.push_back(
        request(*client_, blas(), caf::infinite,
                dgemm{.m = size, .n = size, .k = size, .a = a_, .b = a_, .beta = beta, .c = c}));
    if (on_their_way_.size() == 8) receive_one();
  }
  void receive_all() {
    while (!on_their_way_.empty()) receive_one();
  }
  /// Expects the products of integers that fit exactly, some elements of them.
  void expect_product(const gpu_ref<double>& c, double times) {
    const auto product = s().get(c);
    for (int i = 0; i < 100; ++i) {
      const auto row = s().number<std::int64_t>(0, size - 1);
      const auto column = s().number<std::int64_t>(0, size - 1);
      double sum = 0;
      for (std::int64_t k = 0; k < size; ++k) sum += value(row, k) * value(k, column);
      ASSERT_EQ(product[static_cast<std::size_t>(row * size + column)], times * sum);
    }
  }
  [[nodiscard]] const gpu_ref<double>& last_result() const { return last_result_; }

 private:
  [[nodiscard]] double value(std::int64_t row, std::int64_t column) const {
    return values_[static_cast<std::size_t>(row * size + column)];
  }
  void receive_one() {
    on_their_way_.front().receive([&](const gpu_ref<double>& c) { last_result_ = c; },
                                  [](const caf::error& why) { FAIL() << caf::to_string(why); });
    on_their_way_.pop_front();
  }

  using pending_product =
      decltype(request(std::declval<caf::scoped_actor&>(), std::declval<blas_actor>(),
                       caf::infinite, std::declval<dgemm>()));
  std::vector<double> values_;
  gpu_ref<double> a_;
  gpu_ref<double> last_result_;
  std::unique_ptr<caf::scoped_actor> client_;
  std::deque<pending_product> on_their_way_;
};

TEST_P(lanes_of_one_sender, are_opened_while_its_launches_keep_the_device_behind) {
  await([&] {
    for (int i = 0; i < 100; ++i) send_product();
    return streams_of_launches().size() == 2;
  });
  receive_all();
  expect_product(last_result(), 1);
}

TEST_P(lanes_of_one_sender, stay_closed_for_launches_that_follow_each_other) {
  const auto sum = s().put(std::vector<double>(size * size, 0));
  constexpr int products = 1000;
  for (int i = 0; i < products; ++i) send_product(sum, 1);
  receive_all();
  expect_product(sum, products);
  EXPECT_EQ(streams_of_launches().size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(devices, lanes_of_one_sender, ::testing::Values("cuda"), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, lanes_beside_a_flood, ::testing::Values("host"), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, actor_with_lanes_on_demand, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
