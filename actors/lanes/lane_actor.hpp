// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/lanes/operation_handlers.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/operations/lane_choice.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::detail {

/// One lane of an actor.
struct lane_of_actor {
  const char* name;
  std::shared_ptr<const request_table> requests;
  std::unique_ptr<sluice::executor> executor;  ///< nullptr: made when the lane is prepared
  std::vector<const operation_descriptor*> prepared;
  std::shared_ptr<lane_choice> lanes{};  ///< nullptr: the actor has no other lane
  std::size_t lane = 0;
  std::function<std::unique_ptr<sluice::executor>()>
      make_executor{};  ///< of a lane opened on demand
};

/// Makes `self` the actor of a lane.
template <class Self>
void serve(Self* self, lane_of_actor&& lane) {
  auto& state = state_of(self);
  state.name = lane.name;
  state.requests = std::move(lane.requests);
  if (lane.lanes) state.lane.emplace(std::move(lane.lanes), lane.lane);
  state.prepared = std::move(lane.prepared);
  state.make_executor = std::move(lane.make_executor);
  if (lane.executor) return take_executor(self, std::move(lane.executor));
  state.tend = [self] {
    tend_lane(self);
  };
  state.tend();
}

/// Drops the executor of an actor that ends, and with it the service.
template <class Self>
void drop_executor(Self* self) noexcept {
  auto& state = state_of(self);
  state.executor.reset();
  state.make_executor = nullptr;
  state.tend = nullptr;
}

/// The actor of one lane. Its requests reach the mailbox through a `lane_inbox`.
template <class State>
class lane_actor : public caf::stateful_actor<State> {
 protected:
  using base = caf::stateful_actor<State>;

 public:
  lane_actor(caf::actor_config& config, const std::shared_ptr<lane_of_actor>& lane)
      : base(config), requests_(lane->requests), lane_(lane) {}

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
  /// Takes a message for the lane.
  /// @throws error `overloaded` if there is no room for it; then the message is unchanged
  /// @throws std::bad_alloc likewise
  void take_in(caf::mailbox_element_ptr& element, message_size size) {
    const bool cancels = element->content().template match_elements<cancel_request>();
    inbox_->send(sender_of(element->sender), element, size, cancels);
  }

 protected:
  caf::behavior make_behavior() override {
    serve_lane();
    sluice::on_down(self(), [this](const caf::down_msg& down) { sender_ended(self(), down); });
    // CAF 1.x tells of the end of an actor before it destroys the state.
    sluice::on_exit(self(), [this](caf::exit_msg& exit) {
      if (!exit.reason) return;
      drop_executor(self());
      this->quit(std::move(exit.reason));
    });
    return operation_behavior(self());
  }
  void serve_lane() {
    state_of(self()).inbox = inbox_;
    serve(self(), std::move(*std::exchange(lane_, nullptr)));
  }
  [[nodiscard]] base* self() noexcept { return this; }
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
  std::shared_ptr<lane_of_actor> lane_;  // until the actor serves it
  const std::shared_ptr<lane_inbox> inbox_ = std::make_shared<lane_inbox>(
      [this](caf::mailbox_element_ptr&& element) { base::enqueue(std::move(element), nullptr); },
      lane_inbox::limits());
};

}  // namespace sluice::detail
