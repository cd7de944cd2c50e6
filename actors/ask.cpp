// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/ask.hpp>
#include <sluice/actors/spin_for_message.hpp>

#include <utility>

namespace sluice::detail {
namespace {

using clock = std::chrono::steady_clock;

/// What a client is told if the actor ends.
const caf::message& ended_message() {
  static const auto& message = *new caf::message(caf::make_message(
      to_caf_error(error(errc::shutting_down, "ask: the actor has ended"))));  // never destroyed
  return message;
}

/// The only part of an `end_notice` that the target owns.
class end_answer final : public caf::attachable {
 public:
  end_answer(const void* notice, caf::strong_actor_ptr client, caf::message_id id)
      : notice_(notice), client_(std::move(client)), id_(id), answer_(ended_message()) {}

  void actor_exited(const caf::error&, actor_context*) override {
    enqueue(client_, nullptr, id_, std::move(answer_));
  }
  bool matches(const token& t) override {
    return t.subtype == token::anonymous && t.ptr == notice_;
  }

 private:
  const void* notice_;
  caf::strong_actor_ptr client_;
  caf::message_id id_;
  caf::message answer_;
};

/// Answers the request `id` of `client` with `shutting_down` if `target` ends before the notice is
/// destroyed, or has ended.
class end_notice {
 public:
  end_notice(const caf::strong_actor_ptr& target, const caf::strong_actor_ptr& client,
             caf::message_id id)
      : target_(target) {
    target_->get()->attach(caf::attachable_ptr{new end_answer(this, client, id)});
  }
  end_notice(const end_notice&) = delete;
  end_notice& operator=(const end_notice&) = delete;
  ~end_notice() { target_->get()->detach({caf::attachable::token::anonymous, this}); }

 private:
  caf::strong_actor_ptr target_;
};

/// An error answer as an error of sluice.
error answered_error(const caf::actor_system& system, const caf::error& e) {
  if (auto ours = from_caf_error(e)) return *std::move(ours);
  if (e == caf::sec::request_receiver_down || is_exit_reason(e)) {
    return {errc::shutting_down, "ask: the actor has ended: " + describe(system, e)};
  }
  if (e == caf::sec::runtime_error) {
    return {errc::library_failure,
            "ask: a handler of the actor threw an exception, which has ended the actor: " +
                describe(system, e)};
  }
  return {errc::library_failure, describe(system, e)};
}

constexpr auto never = clock::time_point::max();

/// Waits until `self` has a message.
/// @throws error `deadline_exceeded` if `deadline` passes before
void await_message(caf::blocking_actor& self, clock::time_point deadline) {
  if (deadline == never) return self.await_data();
  using timeout = caf::blocking_actor::timeout_type;
  for (;;) {
    const auto time_left = deadline - clock::now();
    if (self.await_data(timeout::clock::now() +
                        std::chrono::duration_cast<timeout::duration>(time_left))) {
      return;
    }
    // The clock of CAF may have been set.
    if (clock::now() >= deadline) {
      throw error(errc::deadline_exceeded, "ask: the time limit has passed");
    }
  }
}

}  // namespace

caf::message request_and_wait(caf::actor_system& system, const caf::strong_actor_ptr& target,
                              std::optional<std::chrono::nanoseconds> limit, caf::message message) {
  if (!target) throw error(errc::shutting_down, "ask: the handle of the actor is empty");
  if (limit && limit->count() == 0) {
    throw error(errc::deadline_exceeded, "ask: the time limit is not positive");
  }
  const auto deadline = limit ? clock::now() + *limit : never;
  caf::scoped_actor self{system};
  const auto client = caf::actor_cast<caf::strong_actor_ptr>(self);
  const auto request = self->new_request_id(caf::message_priority::normal);
  enqueue(target, client, request, std::move(message));
  const end_notice notice(target, client, request.response_id());
  spin_for_message(self.ptr());
  for (;;) {
    await_message(*self, deadline);
    const auto received = self->dequeue();
    if (!received || received->mid != request.response_id()) continue;
    auto answer = take_content(*received);
    if (answer.match_elements<caf::error>()) {
      throw answered_error(system, answer.get_as<caf::error>(0));
    }
    return answer;
  }
}

void throw_unexpected_answer(const caf::message& answer) {
  throw error(errc::library_failure,
              "ask: the actor answers with another type than expected: " + caf::to_string(answer));
}

}  // namespace sluice::detail
