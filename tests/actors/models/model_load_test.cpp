// SPDX-License-Identifier: Apache-2.0
// Many requests to models, and ends while requests wait.
#include "tests/actors/models/waiting_model_requests.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <latch>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST_F(waiting_model_requests, are_answered_when_the_device_ends) {
  source().hold({3});
  std::vector<std::shared_ptr<answers<host_tensors>>> replies;
  replies.push_back(send(run_of(ones(3))));
  source().await_begun({3});
  for (int i = 1; i < 5; ++i) replies.push_back(send(run_of(ones(3 + i % 2))));
  await_waiting(5);
  std::thread opening([&] {
    // The answers do not wait for the program.
    for (const auto& each : replies) expect_failure(*each, errc::shutting_down);
    source().open({3});
  });
  drop_device();
  opening.join();
  EXPECT_EQ(source().begun({4}), 0);
  for (const auto& each : replies) EXPECT_EQ(each->replies(), 1U);
}

TEST_F(waiting_model_requests, are_answered_when_the_actor_is_killed) {
  source().hold({3});
  const auto waits = send(run_of(ones(3)));
  await_waiting(1);
  std::thread opening([&] {
    (void)waits->wait();
    source().open({3});
  });
  s().end(models(), caf::exit_reason::kill);
  opening.join();
  expect_failure(*waits, errc::shutting_down);
  EXPECT_EQ(waits->replies(), 1U);
}

/// Asks the model actor while it makes a program.
class asking_source final : public model_source {
 public:
  asking_source(caf::actor_system& system, const model_actor& models)
      : system_(system), models_(models->address()) {}

  [[nodiscard]] const std::vector<model_value>& inputs() const noexcept override { return inputs_; }
  [[nodiscard]] const std::vector<model_value>& outputs() const noexcept override {
    return inputs_;
  }
  [[nodiscard]] model_program program_for(const std::map<std::string, tensor_spec>& /*specs*/,
                                          const std::map<std::string, host_tensor>& /*values*/,
                                          const model_options& /*options*/) const override {
    begun.count_down();
    asks.wait();
    const auto models = caf::actor_cast<model_actor>(models_);
    caf::scoped_actor client{system_};
    request(client, models, caf::infinite, list_models{})
        .receive([](const model_list&) {},
                 [&](const caf::error& e) { answer = from_caf_error(e).value().code(); });
    throw error(errc::unsupported, "there is no program");
  }

  mutable std::latch begun{1};
  mutable std::latch asks{1};
  mutable std::optional<errc> answer;  // of the actor

 private:
  caf::actor_system& system_;
  const caf::actor_addr models_;
  const std::vector<model_value> inputs_{{.name = "x"}};
};

TEST_F(waiting_model_requests, may_be_for_a_source_that_asks_the_actor_while_it_ends) {
  const auto source = std::make_shared<asking_source>(system(), models());
  (void)s().ask<model_description>(models(), load_model{.name = "asks", .source = source});
  const auto waits = send({.name = "asks", .inputs = {{"x", ones(3)}}});
  source->begun.wait();
  std::thread asking([&] {
    expect_failure(*waits, errc::shutting_down);
    source->asks.count_down();
  });
  s().end(models());
  asking.join();
  EXPECT_EQ(source->answer, errc::shutting_down);
}

TEST_F(waiting_model_requests, end_with_the_program_actor) {
  source().hold({3});
  const auto waits = send(run_of(ones(3)));
  await_waiting(1);
  std::thread opening([&] {
    (void)waits->wait();
    source().open({3});
  });
  s().end(device().programs());
  opening.join();
  expect_failure(*waits, errc::shutting_down);
  await([&] { return device().models() != models(); });
}

TEST_F(waiting_model_requests, are_answered_after_the_loss_of_the_device) {
  expect_product(*send(run_of(ones(2))), 2);
  source().hold({3});
  const auto waits = send(run_of(ones(3)));
  source().await_begun({3});
  s().device().lose(error(errc::device_lost, "the test lost it"));
  const auto later = send(run_of(ones(4)));
  await_waiting(2);
  source().open({3});
  expect_failure(*waits, errc::device_lost);
  expect_failure(*later, errc::device_lost);
  expect_failure(*send(run_of(ones(2))), errc::device_lost);
  EXPECT_EQ(source().begun({4}), 0);
}

TEST_F(waiting_model_requests, are_bounded_for_each_sender_and_in_all) {
  source().hold({3});
  constexpr std::size_t most = 1024;
  constexpr std::size_t most_of_sender = most / 2;
  const auto flood = [&](std::size_t count) {
    std::vector<caf::message> requests(count);
    for (auto& each : requests) each = caf::make_message(run_of(ones(3)));
    return s().send<host_tensors>(untyped(models()), std::move(requests));
  };
  const auto count_refused = [](const answers<host_tensors>& replies) {
    std::size_t refused = 0;
    for (const auto& each : replies.wait()) {
      if (each.value) continue;
      EXPECT_TRUE(failed_with(each, errc::overloaded));
      ++refused;
    }
    return refused;
  };
  const auto first = flood(most_of_sender + 10);
  await([&] { return first->answered() == 10; });
  const auto second = flood(most_of_sender);
  await_waiting(most);
  EXPECT_EQ(count_refused(*send(run_of(ones(3)))), 1U);
  EXPECT_EQ(count_refused(*send(run_of(ones(5)))), 1U);
  // Others do not wait for this model.
  EXPECT_EQ(waiting(), most);
  source().open({3});
  EXPECT_EQ(count_refused(*first), 10U);
  EXPECT_EQ(count_refused(*second), 0U);
  EXPECT_EQ(waiting(), 0U);
  expect_product(*send(run_of(ones(3))), 2);
  EXPECT_EQ(source().begun({3}), 1);
}

TEST_F(waiting_model_requests, are_bounded_for_all_models_that_have_had_a_name) {
  source().hold({3});
  constexpr std::size_t most_of_sender = 512;
  const auto requests = [&](std::size_t count) {
    std::vector<caf::message> list(count);
    for (auto& each : list) each = caf::make_message(run_of(ones(3)));
    return list;
  };
  const auto first = s().send<host_tensors>(untyped(models()), requests(most_of_sender));
  await_waiting(most_of_sender);
  (void)load("scale", 3);
  const auto second = s().send<host_tensors>(untyped(models()), requests(most_of_sender));
  await_waiting(2 * most_of_sender);
  expect_failure(*send(run_of(ones(3))), errc::overloaded);
  // So it is if the name has been without a model meanwhile.
  (void)s().ask<model_list>(models(), unload_model{"scale"});
  (void)load("scale", 4);
  expect_failure(*send(run_of(ones(3))), errc::overloaded);
  (void)load("other", 5);
  EXPECT_EQ(waiting("other"), 0U);
  source().open({3});
  expect_product(*first, 2);
  expect_product(*second, 3);
  await_waiting(0);
  expect_product(*send(run_of(ones(3))), 4);
}

// More messages than a sender may have in front of an actor, of types that it does not take.
TEST_F(waiting_model_requests, do_not_wait_for_messages_that_are_not_taken) {
  caf::scoped_actor client{system()};
  const auto target = untyped(models());
  for (int i = 0; i < 600; ++i) {
    bool is_refused = false;
    const auto refuse = [&](const caf::error& e) {
      is_refused = e == caf::sec::unexpected_message;
    };
    if (i % 2 == 0) {
      request(client, target, caf::infinite, bulk{}).receive([] {}, refuse);
    } else {
      request(client, target, caf::infinite, run_of(ones(1)), 7).receive([] {}, refuse);
    }
    ASSERT_TRUE(is_refused) << i;
  }
  request(client, models(), caf::infinite, run_of(ones(1)))
      .receive([](const host_tensors&) {},
               [&](const caf::error& e) { FAIL() << describe(system(), e); });
}

TEST_F(waiting_model_requests, are_bounded_in_bytes) {
  source().hold({1 << 24});
  const auto large = ones(1 << 24);  // 64 MiB, shared by the requests
  std::vector<std::shared_ptr<answers<host_tensors>>> replies;
  for (int i = 0; i < 2; ++i) replies.push_back(send(run_of(large)));
  await_waiting(2);
  expect_failure(*send(run_of(ones(1))), errc::overloaded);
  source().open({1 << 24});
  for (const auto& each : replies) expect_product(*each, 2);
}

// Some expire, and one of the models is replaced meanwhile.
TEST_F(waiting_model_requests, are_answered_once_under_load) {
  const auto known = load("known", std::nullopt);
  std::vector<std::shared_ptr<answers<host_tensors>>> replies;
  constexpr std::size_t rounds = 200;
  for (int client = 0; client < 6; ++client) {
    std::vector<caf::message> requests;
    for (std::size_t i = 0; i < rounds; ++i) {
      auto request = run_of(ones(s().number<std::int64_t>(1, 60)), s().coin() ? "scale" : "known");
      if (request.name == "known") {
        request.inputs.emplace("factor",
                               std::vector<float>{static_cast<float>(s().number<int>(1, 3))});
      }
      request_options options{.id = i % 7};
      if (i % 11 == 0) options.deadline = clock().now() + std::chrono::microseconds(i);
      requests.push_back(caf::make_message(std::move(request), std::move(options)));
    }
    replies.push_back(s().send<host_tensors>(untyped(models()), std::move(requests)));
  }
  for (int i = 0; i < 20; ++i) {
    if (i % 2 == 0) (void)load("scale", 2);
    clock().advance(std::chrono::microseconds(10));
    (void)waiting("known");
  }
  clock().advance(std::chrono::hours(1));
  for (const auto& each : replies) {
    for (const auto& reply : each->wait()) {
      EXPECT_TRUE(reply.value || failed_with(reply, errc::deadline_exceeded));
    }
    EXPECT_EQ(each->replies(), rounds);
  }
  EXPECT_EQ(s().ask<queue_status>(models(), get_queue_status{}).requests, 0U);
  EXPECT_LE(s().ask<model_description>(models(), describe_model{"known"}).programs, 32U);
}

}  // namespace
}  // namespace sluice::test
