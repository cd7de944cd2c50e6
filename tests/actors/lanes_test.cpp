// SPDX-License-Identifier: Apache-2.0
// Library actors with several lanes.
#include "actors/lanes/actor_with_lanes.hpp"
#include "tests/actors/session_test.hpp"
#include "tests/envelope/recording_trace.hpp"
#include "tests/support/expect_error.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class several_lanes : public session_test {
 protected:
  static constexpr std::size_t count = 3;
  [[nodiscard]] std::size_t lanes() const override { return count; }
  [[nodiscard]] std::shared_ptr<kernel_trace> trace() const override { return trace_; }

  /// The streams of the launches of an operation.
  [[nodiscard]] std::set<stream_id> streams_of(const std::string& operation) const {
    std::set<stream_id> streams;
    for (const auto& call : trace_->calls()) {
      if (call.operation == operation) streams.insert(call.stream);
    }
    return streams;
  }
  static dgemm add(double added, double factor, const gpu_ref<double>& x,
                   const gpu_ref<double>& c) {
    return {.m = 1, .n = 1, .k = 1, .alpha = added, .a = x, .b = x, .beta = factor, .c = c};
  }
  static request_options options_of(std::uint64_t id) {
    return {.id = id, .bits = result_bits::as_if_alone};
  }
  gpu_ref<double> put(double value) { return s().put(std::vector<double>{value}); }

  /// The lanes of an actor with two lanes that takes `gemm`, started one by one.
  ///@{
  static detail::lane_of_actor lane_of_gemm(std::unique_ptr<executor> executor,
                                            const std::shared_ptr<detail::lane_choice>& choice,
                                            std::size_t number) {
    const std::vector<detail::request_type> types{detail::request_type_of<gemm>()};
    return {.name = "test.gemm",
            .requests = std::make_shared<const detail::request_table>(types),
            .executor = std::move(executor),
            .prepared = {},
            .lanes = choice,
            .lane = number};
  }
  caf::actor spawn_second_lane(detail::lane_of_actor lane) {
    using actor = detail::lane_actor<detail::operation_state>;
    return s().system().spawn<actor, detail::library_actor_options>(
        std::make_shared<detail::lane_of_actor>(std::move(lane)));
  }
  operation_actor<gemm> spawn_first_lane(detail::lane_of_actor lane, const caf::actor& second) {
    return caf::actor_cast<operation_actor<gemm>>(
        s().system().spawn<detail::actor_with_lanes, detail::library_actor_options>(
            std::make_shared<detail::lane_of_actor>(std::move(lane)),
            std::vector<caf::actor>{second}));
  }
  ///@}

 private:
  std::shared_ptr<recording_trace> trace_ = std::make_shared<recording_trace>();
};

TEST_P(several_lanes, keep_the_order_of_each_sender_and_are_all_used) {
  constexpr std::size_t senders = 6;
  constexpr std::size_t each = 300;
  constexpr double modulus = 1 << 20;
  const auto blas = untyped(device().blas());
  const auto x = put(1);
  std::vector<double> expected(senders, 1);
  std::vector<gpu_ref<double>> sums;
  std::vector<std::shared_ptr<answers<gpu_ref<double>>>> replies;
  for (auto& sum : expected) {
    sums.push_back(put(sum));
    std::vector<caf::message> requests;
    for (std::size_t i = 0; i < each; ++i) {
      const auto added = static_cast<double>(s().number<int>(1, 50));
      const double factor = std::abs(sum) > modulus ? 0.0 : -2.0;
      const auto reply = s().coin() ? reply_on::enqueued : reply_on::finished;
      requests.push_back(
          caf::make_message(add(added, factor, x, sums.back()), request_options{.reply = reply}));
      sum = factor * sum + added;
    }
    replies.push_back(s().send<gpu_ref<double>>(blas, std::move(requests)));
  }
  for (const auto& of_one : replies) {
    for (const auto& a : of_one->wait()) ASSERT_TRUE(succeeded(a));
  }
  for (std::size_t i = 0; i < senders; ++i) {
    EXPECT_EQ(s().get(sums[i]), std::vector<double>{expected[i]});
    EXPECT_EQ(replies[i]->replies(), each);
  }
  EXPECT_EQ(streams_of("gemm").size(), count);
}

TEST_P(several_lanes, tell_together_what_waits_and_cancel_it_for_its_sender) {
  constexpr std::size_t senders = 6;
  constexpr std::size_t each = max_in_flight + 9;
  const auto blas = device().blas();
  const auto x = put(1);
  (void)s().ask<gpu_ref<double>>(blas, add(1, 0, x, put(0)));
  gate g;
  s().hold(g, x);
  std::vector<std::shared_ptr<answers<gpu_ref<double>>>> replies;
  for (std::size_t i = 0; i < senders; ++i) {
    std::vector<caf::message> requests;
    const auto sum = put(1);
    for (std::size_t j = 0; j < each; ++j) {
      requests.push_back(caf::make_message(add(1, 1, x, sum), options_of(1 + j)));
    }
    requests.push_back(caf::make_message(cancel_request{each}));
    replies.push_back(s().send<gpu_ref<double>>(untyped(blas), std::move(requests)));
  }
  // Each lane has its launches in flight. Each sender cancels one request that waits.
  const std::size_t waiting = senders * (each - 1) - count * max_in_flight;
  await([&] { return s().ask<queue_status>(blas, get_queue_status{}).requests == waiting; });
  g.open();
  for (const auto& of_one : replies) {
    const auto results = of_one->wait();
    for (std::size_t j = 0; j + 1 < each; ++j) EXPECT_TRUE(succeeded(results[j]));
    EXPECT_TRUE(failed_with(results[each - 1], errc::cancelled));
    EXPECT_EQ(of_one->replies(), each + 1);  // one of them to the `cancel_request`
  }
}

TEST_P(several_lanes, cancel_what_their_sender_has_launched_on_another_one) {
  const auto choice = std::make_shared<detail::lane_choice>(2);
  std::array<executor*, 2> executors{};
  const auto lane = [&](std::size_t i) {
    auto lane_executor = std::make_unique<executor>(s().service());
    executors[i] = lane_executor.get();
    return lane_of_gemm(std::move(lane_executor), choice, i);
  };
  auto second = spawn_second_lane(lane(1));
  const auto actor = spawn_first_lane(lane(0), second);
  constexpr std::uint64_t id = 7;
  const auto sum = put(0);
  const auto x = tensor(put(1).block(), element_type::f64, {1, 1});
  const auto result = tensor(sum.block(), element_type::f64, {1, 1});
  caf::scoped_actor self{s().system()};
  const auto ask = [&](double alpha, std::uint64_t name) {
    return request(self, actor, caf::infinite, gemm{.a = x, .b = x, .c = result, .alpha = alpha},
                   options_of(name));
  };
  ask(1, 0).receive([](const tensor&) {}, [](const caf::error&) { FAIL(); });
  gate g;
  s().hold(g, sum);
  auto launched = ask(2, id);
  await([&] { return executors[0]->lane().in_flight() + executors[1]->lane().in_flight() == 1; });
  const std::size_t first = executors[0]->lane().in_flight() == 1 ? 0 : 1;
  // Its lane has ended the handler of the request.
  (void)s().ask<queue_status>(actor, get_queue_status{});
  // Messages of others, as far as the choice knows, until the other lane has fewer of them.
  std::array<std::size_t, 2> loads{};
  for (std::uint64_t other = 1; loads[first] <= loads[1 - first]; ++other) {
    choice->route({other << 32U}, request_priority::normal, nullptr,
                  [&](std::size_t number) { ++loads[number]; });
  }
  request(self, actor, caf::infinite, cancel_request{id})
      .receive([] {}, [](const caf::error&) { FAIL(); });
  launched.receive([](const tensor&) { FAIL() << "was not cancelled"; },
                   [](const caf::error& why) {
                     EXPECT_EQ(from_caf_error(why).value().code(), errc::cancelled);
                   });
  g.open();
  s().end(actor);
}

TEST_P(several_lanes, end_with_their_actor_and_answer_what_waits) {
  for (int round = 0; round < 10; ++round) {
    auto blas = spawn_blas(s().system(), s().service());
    const auto x = put(1);
    std::vector<std::shared_ptr<answers<gpu_ref<double>>>> replies;
    for (int i = 0; i < 6; ++i) {
      const auto sum = put(1);
      replies.push_back(s().send<gpu_ref<double>>(
          untyped(blas), std::vector<caf::message>(200, caf::make_message(add(1, 1, x, sum)))));
    }
    await([&] { return replies.front()->answered() > static_cast<std::size_t>(round); });
    if (round % 3 == 0) {
      s().end(blas);
    } else if (round % 3 == 1) {
      s().end(blas, caf::exit_reason::kill);
    }
    blas = nullptr;
    for (const auto& of_one : replies) {
      (void)of_one->wait();
      EXPECT_EQ(of_one->replies(), 200U);
    }
  }
}

TEST_P(several_lanes, all_end_if_one_of_them_does) {
  for (const bool ends_the_first : {true, false}) {
    const auto choice = std::make_shared<detail::lane_choice>(2);
    const auto lane = [&](std::size_t i) {
      return lane_of_gemm(std::make_unique<executor>(s().service()), choice, i);
    };
    auto second = spawn_second_lane(lane(1));
    auto actor = spawn_first_lane(lane(0), second);
    EXPECT_EQ(s().ask<queue_status>(actor, get_queue_status{}).requests, 0U);
    caf::scoped_actor self{s().system()};
    self->send_exit(ends_the_first ? untyped(actor) : second, caf::exit_reason::kill);
    self->wait_for(actor, second);
  }
}

class lanes_of_priorities : public several_lanes {
 protected:
  [[nodiscard]] std::size_t lanes() const override { return 1; }
  [[nodiscard]] std::size_t high_priority_lanes() const override { return 1; }
};

// The ordinary lane waits for a gate, so that only another lane can answer meanwhile.
TEST_P(lanes_of_priorities, launch_requests_of_high_priority_past_full_lanes) {
  const auto blas = device().blas();
  const auto x = put(1);
  const auto sum = put(1);
  auto options = options_of(0);
  options.priority = request_priority::high;
  // A lane of a GPU may not be opened behind a closed gate: libraries wait for the device.
  (void)s().ask<gpu_ref<double>>(blas, add(1, 0, x, put(0)));
  await([&] {
    (void)s().ask<gpu_ref<double>>(blas, add(1, 0, x, put(0)), options);
    return streams_of("gemm").size() == 2;
  });
  gate g;
  s().hold(g, sum);
  std::vector<caf::message> requests;
  for (std::size_t i = 0; i < max_in_flight + 9; ++i) {
    requests.push_back(caf::make_message(add(1, 1, x, sum), options_of(0)));
  }
  const auto flood = s().send<gpu_ref<double>>(untyped(blas), std::move(requests));
  await([&] { return s().ask<queue_status>(blas, get_queue_status{}).requests == 9; });
  const auto other_sum = put(5);
  const auto answered = s().send<gpu_ref<double>>(
      untyped(blas), {caf::make_message(add(2, 3, x, other_sum), options)});
  EXPECT_TRUE(succeeded(answered->wait().front()));
  EXPECT_EQ(s().get(other_sum), std::vector<double>{17});
  g.open();
  for (const auto& a : flood->wait()) ASSERT_TRUE(succeeded(a));
  EXPECT_EQ(streams_of("gemm").size(), 2U);
}

TEST_P(lanes_of_priorities, keep_the_order_of_one_sender) {
  constexpr std::size_t each = 300;
  const auto x = put(1);
  const auto sum = put(1);
  double expected = 1;
  std::vector<caf::message> requests;
  for (std::size_t i = 0; i < each; ++i) {
    const auto added = static_cast<double>(s().number<int>(1, 50));
    const double factor = i % 16 == 0 ? 0.0 : -2.0;
    auto options = options_of(0);
    if (s().coin()) options.priority = request_priority::high;
    if (s().coin()) options.reply = reply_on::enqueued;
    requests.push_back(caf::make_message(add(added, factor, x, sum), options));
    expected = factor * expected + added;
  }
  const auto replies = s().send<gpu_ref<double>>(untyped(device().blas()), std::move(requests));
  for (const auto& a : replies->wait()) ASSERT_TRUE(succeeded(a));
  EXPECT_EQ(s().get(sum), std::vector<double>{expected});
}

INSTANTIATE_TEST_SUITE_P(devices, lanes_of_priorities, every_device(), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, several_lanes, every_device(), parameter_name);

TEST(host_copies, are_those_of_runs_with_inputs_or_results_in_host_memory) {
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.add(exp(x));
  const auto what = std::move(p).build({y});
  const host_tensor on_host(std::vector<float>{1});
  EXPECT_FALSE(detail::has_host_copies(run{.what = what}));
  EXPECT_TRUE(detail::has_host_copies(run{.what = what, .inputs = {on_host}}));
  EXPECT_TRUE(detail::has_host_copies(run_to_host{.what = what}));
  EXPECT_FALSE(detail::has_host_copies(prepare{.what = what}));
}

}  // namespace
}  // namespace sluice::test
