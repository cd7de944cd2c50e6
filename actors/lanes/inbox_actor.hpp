// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/lanes/lane_inbox.hpp"
#include "actors/lanes/request_table.hpp"

#include <sluice/actors/caf.hpp>
#include <sluice/actors/reply.hpp>
#include <sluice/operations/bounded_inbox.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace sluice::detail {

/// An actor whose messages of clients reach the mailbox through a `lane_inbox`. Its handlers note
/// each message that they have handled there.
template <class State>
class inbox_actor : public caf::stateful_actor<State> {
 protected:
  using base = caf::stateful_actor<State>;

 public:
  /// An actor that takes the messages of `requests`.
  inbox_actor(caf::actor_config& config, std::shared_ptr<const request_table> requests)
      : base(config), requests_(std::move(requests)) {}

  using base::enqueue;
  enqueue_result enqueue(caf::mailbox_element_ptr element, actor_context* context) override {
    const auto size = waiting_size(*element);
    if (!size) return take_other(std::move(element), context);
    try {
      take_in(element, *size);
    } catch (...) {
      refuse(*element);
    }
    return enqueue_result(true);
  }
  /// Takes a message of a client.
  /// @throws error `overloaded` if there is no room for it; then the message is unchanged
  /// @throws std::bad_alloc likewise
  void take_in(caf::mailbox_element_ptr& element, message_size size) {
    const bool cancels = element->content().template match_elements<cancel_request>();
    inbox_->send(sender_of(element->sender), element, size, cancels);
  }

 protected:
  [[nodiscard]] base* self() noexcept { return this; }
  [[nodiscard]] const std::shared_ptr<lane_inbox>& inbox() const noexcept { return inbox_; }
  /// The size of a waiting message. Empty for a response and for a type that clients do not send.
  [[nodiscard]] std::optional<message_size> waiting_size(
      const caf::mailbox_element& element) const noexcept {
    if (element.mid.is_response()) return std::nullopt;
    return requests_->waiting_size(element.content());
  }
  /// Puts a message without a size into the mailbox, or answers it if the actor does not know it.
  enqueue_result take_other(caf::mailbox_element_ptr element, actor_context* context) {
    if (element->mid.is_response() || is_internal(element->content())) {
      return base::enqueue(std::move(element), context);
    }
    try {
      if (!element->mid.is_request()) {
        throw error(errc::unsupported, "the actor does not take a message of this type");
      }
      if (element->sender) {
        sluice::detail::enqueue(element->sender, nullptr, element->mid.response_id(),
                                caf::make_error(caf::sec::unexpected_message));
      }
    } catch (...) {
      refuse(*element);
    }
    return enqueue_result(true);
  }
  /// Answers a message that is not taken with the current exception.
  static void refuse(caf::mailbox_element& element) noexcept {
    reply_address(element.sender, take_stages(element), element.mid).send_error(current_error());
  }

 private:
  const std::shared_ptr<const request_table> requests_;
  const std::shared_ptr<lane_inbox> inbox_ = std::make_shared<lane_inbox>(
      [this](caf::mailbox_element_ptr&& element) { base::enqueue(std::move(element), nullptr); },
      lane_inbox::limits());
};

}  // namespace sluice::detail
