// SPDX-License-Identifier: Apache-2.0
// Requests that wait until the program of a model has been made.
#include "tests/actors/models/waiting_model_requests.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST_F(waiting_model_requests, share_a_program) {
  source().hold({3});
  std::vector<std::shared_ptr<answers<host_tensors>>> replies;
  for (int i = 0; i < 20; ++i) replies.push_back(send(run_of(ones(3))));
  await_waiting(20);
  EXPECT_EQ(s().ask<queue_status>(models(), get_queue_status{}).requests, 20U);
  source().open({3});
  for (const auto& each : replies) expect_product(*each, 2);
  EXPECT_EQ(source().begun(), 1);
  EXPECT_EQ(waiting(), 0U);
  for (const auto& each : replies) EXPECT_EQ(each->replies(), 1U);
}

TEST_F(waiting_model_requests, share_a_failure) {
  source().hold({3});
  source().fail(errc::out_of_memory);
  const auto first = send(run_of(ones(3)));
  const auto second = send(run_of(ones(3)));
  await_waiting(2);
  source().open({3});
  expect_failure(*first, errc::out_of_memory);
  expect_failure(*second, errc::out_of_memory);
  expect_product(*send(run_of(ones(3))), 2);
}

TEST_F(waiting_model_requests, hold_up_no_others) {
  // Its later programs are made on the thread for short ones: by the clock, the first took no time.
  (void)load("other", 5);
  expect_product(*send(run_of(ones(2), "other")), 5);
  source().hold({3});
  const auto held = send(run_of(ones(3)));
  source().await_begun({3});
  EXPECT_EQ(waiting(), 1U);
  EXPECT_EQ(waiting("other"), 0U);
  // A program that is there, and a new one of a model whose last one took little time.
  expect_product(*send(run_of(ones(2), "other")), 5);
  expect_product(*send(run_of(ones(3), "other")), 5);
  EXPECT_EQ(waiting(), 1U);
  source().open({3});
  expect_product(*held, 2);
}

TEST_F(waiting_model_requests, pass_on_when_each_program_has_been_made) {
  const auto known = load("known", std::nullopt);
  std::vector<std::shared_ptr<answers<host_tensors>>> replies;
  known->hold({3});
  for (int i = 0; i < 12; ++i) {
    const auto factor = static_cast<float>(i % 3);
    auto request = run_of(ones(3), "known");
    request.inputs.emplace("factor", std::vector<float>{factor});
    replies.push_back(send(std::move(request)));
  }
  await_waiting(12, "known");
  known->open({3});
  for (int i = 0; i < 12; ++i) {
    expect_product(*replies[static_cast<std::size_t>(i)], static_cast<float>(i % 3));
  }
  EXPECT_EQ(known->begun(), 4);
}

TEST_F(waiting_model_requests, end_with_the_model_that_they_were_sent_to) {
  source().hold({3});
  source().hold({4});
  const auto first = send(run_of(ones(3)));
  const auto second = send(run_of(ones(4)));
  await_waiting(2);
  const auto replaced = load("scale", 11);
  // The new one takes over the count of the name.
  EXPECT_EQ(waiting(), 2U);
  // The first program of the new one waits for the thread that the old one holds.
  const auto later = send(run_of(ones(3)));
  await_waiting(3);
  EXPECT_EQ(s().ask<model_list>(models(), unload_model{"scale"}).names.size(), 0U);
  EXPECT_EQ(first->answered() + second->answered() + later->answered(), 0U);
  source().open({3});
  source().open({4});
  expect_product(*first, 2);
  expect_product(*second, 2);
  expect_product(*later, 11);
  EXPECT_EQ(source().begun(), 2);
  EXPECT_EQ(replaced->begun(), 1);
}

TEST_F(waiting_model_requests, end_at_their_deadlines) {
  source().hold({3});
  const auto held = send(run_of(ones(3)));
  source().await_begun({3});
  const auto past = clock().now() - std::chrono::milliseconds(1);
  const auto soon = clock().now() + std::chrono::milliseconds(5);
  const auto later = clock().now() + std::chrono::hours(1);
  expect_failure(*send(run_of(ones(3)), {.deadline = past}), errc::deadline_exceeded);
  expect_failure(*send(run_of(ones(5)), {.deadline = past}), errc::deadline_exceeded);
  const auto begun = send(run_of(ones(3)), {.deadline = soon});
  const auto not_begun = send(run_of(ones(4)), {.deadline = soon});
  const auto distant = send(run_of(ones(3)), {.deadline = later});
  await_waiting(4);
  clock().advance(std::chrono::milliseconds(4));
  EXPECT_EQ(waiting(), 4U);
  clock().advance(std::chrono::milliseconds(1));
  expect_failure(*begun, errc::deadline_exceeded);
  expect_failure(*not_begun, errc::deadline_exceeded);
  await_waiting(2);
  source().open({3});
  expect_product(*held, 2);
  expect_product(*distant, 2);
  EXPECT_EQ(source().begun({4}), 0);
  EXPECT_EQ(source().begun({5}), 0);
}

// A model that has taken little time has its programs made on another thread than `scale`.
TEST_F(waiting_model_requests, are_not_begun_after_their_deadlines) {
  const auto other = load("other", 5);
  expect_product(*send(run_of(ones(2), "other")), 5);
  const auto past = clock().now() - std::chrono::milliseconds(1);
  expect_failure(*send(run_of(ones(3), "other"), {.deadline = past}), errc::deadline_exceeded);
  expect_product(*send(run_of(ones(4), "other")), 5);
  EXPECT_EQ(other->begun({3}), 0);
}

TEST_F(waiting_model_requests, leave_messages_unchanged_that_others_share) {
  source().hold({3});
  const auto message = caf::make_message(run_of(ones(3)), request_options{.id = 1});
  const auto first = s().send<host_tensors>(untyped(models()), {message});
  const auto second = s().send<host_tensors>(untyped(models()), {message});
  await_waiting(2);
  EXPECT_EQ(message.get_as<run_model_to_host>(0).inputs.size(), 1U);
  EXPECT_EQ(message.get_as<run_model_to_host>(0).inputs.at("x").on_host().size(), 3U);
  source().open({3});
  expect_product(*first, 2);
  expect_product(*second, 2);
}

TEST_F(waiting_model_requests, are_cancelled_by_their_sender) {
  source().hold({3});
  caf::scoped_actor alice{system()};
  caf::scoped_actor bob{system()};
  const auto answer_of = [](auto&& response) {
    std::optional<errc> code;
    std::forward<decltype(response)>(response).receive(
        [](const host_tensors&) {},
        [&](const caf::error& e) { code = from_caf_error(e).value().code(); });
    return code;
  };
  auto of_alice =
      request(alice, models(), caf::infinite, run_of(ones(3)), request_options{.id = 5});
  auto of_bob = request(bob, models(), caf::infinite, run_of(ones(3)), request_options{.id = 5});
  await_waiting(2);
  sluice::send(alice, models(), cancel_request{6});
  sluice::send(alice, models(), cancel_request{0});
  EXPECT_EQ(waiting(), 2U);
  sluice::send(alice, models(), cancel_request{5});
  EXPECT_EQ(answer_of(std::move(of_alice)), errc::cancelled);
  EXPECT_EQ(waiting(), 1U);
  source().open({3});
  EXPECT_EQ(answer_of(std::move(of_bob)), std::nullopt);
}

// The program actor runs what the model actor has passed on.
TEST_F(waiting_model_requests, are_cancelled_when_they_have_been_passed_on) {
  expect_product(*send(run_of(ones(4))), 2);
  gate g;
  const auto x = s().put(std::vector<float>(4, 1));
  s().hold(g, x);
  caf::scoped_actor client{system()};
  auto answer = request(client, models(), caf::infinite,
                        run_model{.name = "scale", .inputs = {{"x", x}}}, request_options{.id = 3});
  // In the order of the client's messages.
  sluice::send(client, models(), cancel_request{3});
  std::optional<errc> code;
  std::move(answer).receive([](const tensors&) {},
                            [&](const caf::error& e) { code = from_caf_error(e).value().code(); });
  EXPECT_EQ(code, errc::cancelled);
  g.open();
}

TEST_F(waiting_model_requests, are_dropped_with_their_sender) {
  source().hold({3});
  {
    caf::scoped_actor ends{system()};
    for (int i = 0; i < 3; ++i) {
      sluice::send(ends, models(), run_of(ones(3)), request_options{.while_alive = true});
    }
    sluice::send(ends, models(), run_of(ones(3)));
    await_waiting(4);
  }
  await_waiting(1);
  source().open({3});
  await_waiting(0);
}

}  // namespace
}  // namespace sluice::test
