// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/ask.hpp>

#include <utility>

namespace sluice::detail {
namespace {

/// The only part of an `end_notice` that the target owns.
class end_answer final : public caf::attachable {
 public:
  end_answer(const void* notice, caf::strong_actor_ptr client, caf::message_id id)
      : notice_(notice),
        client_(std::move(client)),
        id_(id),
        answer_(caf::make_message(
            to_caf_error(error(errc::shutting_down, "ask: the actor has ended")))) {}

  void actor_exited(const caf::error&, actor_context*) override {
    enqueue(client_, nullptr, id_, std::move(answer_));
  }
  bool matches(const token& what) override {
    return what.subtype == token::anonymous && what.ptr == notice_;
  }

 private:
  const void* notice_;
  caf::strong_actor_ptr client_;
  caf::message_id id_;
  caf::message answer_;
};

}  // namespace

end_notice::end_notice(caf::strong_actor_ptr target, const caf::strong_actor_ptr& client,
                       caf::message_id id)
    : target_(std::move(target)) {
  target_->get()->attach(caf::attachable_ptr{new end_answer(this, client, id)});
}

end_notice::~end_notice() {
  target_->get()->detach({caf::attachable::token::anonymous, this});
}

error asked_error(const caf::actor_system& system, const caf::error& e) {
  if (auto ours = from_caf_error(e)) return *std::move(ours);
  if (e == caf::sec::request_timeout) {
    return {errc::deadline_exceeded, "ask: the time limit has passed"};
  }
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

}  // namespace sluice::detail
