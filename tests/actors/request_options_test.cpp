// SPDX-License-Identifier: Apache-2.0
// Options of requests through messages: who the sender is, cancellation, and senders that end.
#include "tests/actors/session.hpp"
#include "tests/operations/executor/planned_operation.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/actors/spawn_operations.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

SLUICE_MESSAGES(test_request_options, 200, sluice::test::planned)

namespace sluice::test {
namespace {

using planned_actor = operation_actor<planned>;

class actor_request_options : public ::testing::Test {
 protected:
  void SetUp() override {
    session_ = std::make_unique<session>(open_host_device());
    actor_ = spawn_operations<planned>(session_->system(), "tests.planned", session_->service(),
                                       nullptr, {});
    x_ = session_->put(std::vector<std::uint32_t>(4, 1));
  }
  void TearDown() override {
    caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
    actor_ = nullptr;
    x_ = {};
    session_ = nullptr;
  }

  [[nodiscard]] caf::actor_system& system() { return session_->system(); }
  [[nodiscard]] const planned_actor& actor() const { return actor_; }
  [[nodiscard]] plan_script& script() { return script_; }
  [[nodiscard]] planned operation(std::int64_t key) const { return {.x = x_, .key = key}; }
  [[nodiscard]] queue_status status() {
    return ask<queue_status>(system(), actor_, get_queue_status{});
  }
  void await_waiting(std::size_t count) {
    await([&] { return status().requests == count; });
  }
  /// Receives the answer to one request: nothing for a result.
  template <class Response>
  static std::optional<errc> answer_of(Response&& response) {
    std::optional<errc> code;
    std::forward<Response>(response).receive(
        [](const tensor&) {}, [&](const caf::error& e) { code = from_caf_error(e)->code(); });
    return code;
  }

 private:
  plan_script script_;
  std::unique_ptr<session> session_;
  planned_actor actor_;
  gpu_ref<std::uint32_t> x_;
};

TEST_F(actor_request_options, only_the_sender_cancels_its_requests) {
  script().hold(1);
  caf::scoped_actor alice{system()};
  caf::scoped_actor bob{system()};
  auto of_alice = request(alice, actor(), caf::infinite, operation(1), request_options{.id = 5});
  auto of_bob = request(bob, actor(), caf::infinite, operation(1), request_options{.id = 5});
  await_waiting(2);
  send(alice, actor(), cancel_request{5});
  EXPECT_EQ(answer_of(std::move(of_alice)), errc::cancelled);
  EXPECT_EQ(status().requests, 1U);
  script().open(1);
  EXPECT_EQ(answer_of(std::move(of_bob)), std::nullopt);
}

TEST_F(actor_request_options, a_deadline_answers_while_a_plan_is_made) {
  script().hold(1);
  caf::scoped_actor client{system()};
  auto late = request(
      client, actor(), caf::infinite, operation(1),
      request_options{.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(5)});
  EXPECT_EQ(answer_of(std::move(late)), errc::deadline_exceeded);
  script().open(1);
}

TEST_F(actor_request_options, drops_the_requests_of_a_sender_that_ends) {
  script().hold(1);
  {
    caf::scoped_actor ends{system()};
    for (int i = 0; i < 3; ++i) {
      send(ends, actor(), operation(1), request_options{.while_alive = true});
    }
    send(ends, actor(), operation(1));
    await_waiting(4);
  }
  await_waiting(1);
  script().open(1);
  await_waiting(0);
}

TEST_F(actor_request_options, tells_the_status_of_the_queue) {
  EXPECT_EQ(status().requests, 0U);
  script().hold(1);
  caf::scoped_actor client{system()};
  auto waits = request(client, actor(), caf::infinite, operation(1));
  await_waiting(1);
  EXPECT_EQ(status().planning, 1U);
  EXPECT_GT(status().bytes, sizeof(planned));
  script().open(1);
  EXPECT_EQ(answer_of(std::move(waits)), std::nullopt);
  EXPECT_EQ(status().requests, 0U);
}

}  // namespace
}  // namespace sluice::test
