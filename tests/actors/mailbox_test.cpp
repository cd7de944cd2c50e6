// SPDX-License-Identifier: Apache-2.0
// Messages that wait in front of an actor, whose thread a test holds.
#include "actors/lanes/operation_handlers.hpp"
#include "tests/actors/session.hpp"

#include <sluice/actors/spawn_operations.hpp>
#include <sluice/operations/bounded_inbox.hpp>
#include <sluice/operations/indexed_operation.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {

/// Notes the labels of operations in the order in which an actor takes them. One at a time.
class taken_labels {
 public:
  taken_labels() { current() = this; }
  taken_labels(const taken_labels&) = delete;
  taken_labels& operator=(const taken_labels&) = delete;
  ~taken_labels() { current() = nullptr; }

  /// Called by the actor, which waits in the first one until `open`.
  void note(int label) {
    std::unique_lock lock(mutex_);
    labels_.push_back(label);
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_open_; });
  }
  void await_first() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !labels_.empty(); });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] std::vector<int> all() {
    const std::lock_guard lock(mutex_);
    return labels_;
  }
  static taken_labels*& current() {
    static taken_labels* labels = nullptr;
    return labels;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> labels_;
  bool is_open_ = false;
};

/// Is refused once it has been noted.
struct noted {
  operand x{};
  int label = 0;
  std::string text{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &noted::x), parameter("label", &noted::label),
                           parameter("text", &noted::text), output("y", &noted::y));
  }
  static constexpr std::string_view name = "noted";
  static constexpr bool has_kernel = false;
  struct call {
    std::size_t count;
  };
  struct nothing {
    void operator()(std::size_t) const {}
  };
  static call infer(const noted& op, inference& inference) {
    taken_labels::current()->note(op.label);
    throw inference.refusal(op.x, "has been noted");
  }
  static nothing body(const call&, const launch_of<noted>&) { return {}; }
};

}  // namespace sluice::test

SLUICE_MESSAGES(test_mailbox, 220, sluice::test::noted)

namespace sluice::test {
namespace {

class mailbox : public ::testing::TestWithParam<std::size_t> {
 protected:
  static constexpr detail::lane_inbox::limits limits{};

  void SetUp() override {
    session_ = std::make_unique<session>(open_host_device(), completion_strategy::polled,
                                         GetParam(), std::size_t{0});
    actor_ = spawn_operations<noted>(session_->system(), "tests.noted", session_->service());
  }
  void TearDown() override {
    labels().open();
    caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
    actor_ = nullptr;
    session_ = nullptr;
  }
  /// Sends operations with `label`. The actor waits in the first one of all.
  void send_many(caf::scoped_actor& sender, std::size_t count, int label) {
    for (std::size_t i = 0; i < count; ++i) send(sender, actor_, noted{.label = label});
  }
  [[nodiscard]] caf::actor_system& system() { return session_->system(); }
  [[nodiscard]] const operation_actor<noted>& actor() const { return actor_; }
  [[nodiscard]] taken_labels& labels() { return labels_; }
  template <class Response>
  static std::optional<errc> answer_of(Response&& response) {
    std::optional<errc> code;
    std::forward<Response>(response).receive([](const tensor&) {},
                                             [&](const caf::error& e) {
                                               const auto why = from_caf_error(e);
                                               code = why ? why->code() : errc::shutting_down;
                                             });
    return code;
  }

 private:
  taken_labels labels_;
  std::unique_ptr<session> session_;
  operation_actor<noted> actor_;
};

TEST_P(mailbox, has_few_messages_of_a_sender) {
  caf::scoped_actor alice{system()};
  caf::scoped_actor bob{system()};
  constexpr std::size_t flood = 5000;
  send_many(alice, flood, 1);
  labels().await_first();
  auto answer = request(bob, actor(), caf::infinite, noted{.label = 2});
  labels().open();
  EXPECT_EQ(answer_of(std::move(answer)), errc::invalid_argument);
  const auto order = labels().all();
  const auto found = std::find(order.begin(), order.end(), 2);
  ASSERT_NE(found, order.end());
  if (GetParam() == 1) {
    EXPECT_LE(found - order.begin(), static_cast<std::ptrdiff_t>(limits.in_mailbox));
  }
  await([&] { return labels().all().size() == flood + 1; });
}

TEST_P(mailbox, refuses_messages_beyond_the_share_of_a_sender) {
  caf::scoped_actor alice{system()};
  caf::scoped_actor bob{system()};
  const auto most = limits.in_mailbox + limits.backlog_of_sender;
  send_many(alice, most, 1);
  labels().await_first();
  EXPECT_EQ(answer_of(request(alice, actor(), caf::infinite, noted{.label = 3})), errc::overloaded);
  auto answer = request(bob, actor(), caf::infinite, noted{.label = 2});
  labels().open();
  EXPECT_EQ(answer_of(std::move(answer)), errc::invalid_argument);
  await([&] { return labels().all().size() == most + 1; });
  // The refused one has left nothing behind: the next one is taken.
  EXPECT_EQ(answer_of(request(alice, actor(), caf::infinite, noted{.label = 4})),
            errc::invalid_argument);
}

TEST_P(mailbox, refuses_messages_beyond_the_bytes_of_a_sender) {
  caf::scoped_actor alice{system()};
  caf::scoped_actor bob{system()};
  const auto large = [](int label) {
    return noted{.label = label, .text = std::string(limits.backlog_bytes_of_sender / 3, 'x')};
  };
  send_many(alice, 1, 1);
  labels().await_first();
  for (int i = 0; i < 2; ++i) send(alice, actor(), large(1));
  // Two are kept, and each message itself takes some bytes.
  EXPECT_EQ(answer_of(request(alice, actor(), caf::infinite, large(1), request_options{})),
            errc::overloaded);
  labels().open();
  await([&] { return labels().all().size() == 3; });
  EXPECT_EQ(answer_of(request(bob, actor(), caf::infinite, large(2))), errc::invalid_argument);
}

// Every message of a client counts, also one that is answered at once.
TEST_P(mailbox, has_few_requests_for_the_status_of_a_sender) {
  caf::scoped_actor alice{system()};
  caf::scoped_actor bob{system()};
  send_many(alice, 1, 1);
  labels().await_first();
  for (std::size_t i = 1; i < limits.in_mailbox + limits.backlog_of_sender; ++i) {
    send(alice, actor(), get_queue_status{});
  }
  std::optional<errc> refusal;
  request(alice, actor(), caf::infinite, get_queue_status{})
      .receive([](const queue_status&) {},
               [&](const caf::error& e) { refusal = from_caf_error(e).value().code(); });
  EXPECT_EQ(refusal, errc::overloaded);
  labels().open();
  request(bob, actor(), caf::infinite, get_queue_status{})
      .receive([](const queue_status& status) { EXPECT_EQ(status.requests, 0U); },
               [](const caf::error& e) { FAIL() << to_string(e); });
}

// They take no memory: the sender's thread answers them.
TEST_P(mailbox, does_not_keep_messages_that_the_actor_does_not_take) {
  caf::scoped_actor alice{system()};
  send_many(alice, 1, 1);
  labels().await_first();
  const auto untyped = caf::actor_cast<caf::actor>(actor());
  bool is_unexpected = false;
  request(alice, untyped, caf::infinite, 5)
      .receive([] {},
               [&](const caf::error& e) { is_unexpected = e == caf::sec::unexpected_message; });
  EXPECT_TRUE(is_unexpected);
}

// An untyped handle lets messages through that the actor does not know.
TEST_P(mailbox, answers_messages_that_the_actor_does_not_take) {
  caf::scoped_actor alice{system()};
  const auto untyped = caf::actor_cast<caf::actor>(actor());
  labels().open();
  const auto expect_unexpected = [](auto&& response) {
    std::move(response).receive([] { FAIL() << "was taken"; },
                                [](const caf::error& e) { EXPECT_FALSE(from_caf_error(e)); });
  };
  for (std::size_t i = 0; i <= limits.in_mailbox; ++i) {
    expect_unexpected(request(alice, untyped, caf::infinite, cancel_request{1}, request_options{}));
  }
  expect_unexpected(request(alice, untyped, caf::infinite, request_options{}, noted{}));
  expect_unexpected(request(alice, untyped, caf::infinite, queue_status{}));
  EXPECT_EQ(answer_of(request(alice, actor(), caf::infinite, noted{.label = 1})),
            errc::invalid_argument);
}

TEST_P(mailbox, that_ends_answers_what_waits_in_front_of_it) {
  caf::scoped_actor alice{system()};
  using response = decltype(request(alice, actor(), caf::infinite, noted{}));
  std::vector<response> all;
  for (int i = 0; i < 1000; ++i) {
    all.push_back(request(alice, actor(), caf::infinite, noted{.label = i}));
  }
  labels().await_first();
  caf::anon_send_exit(actor(), caf::exit_reason::kill);
  labels().open();
  for (auto& one : all) EXPECT_NE(answer_of(std::move(one)), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(lanes, mailbox, ::testing::Values(1, 3));

}  // namespace
}  // namespace sluice::test
