// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_handlers.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/operations/lane_choice.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::detail {

template <class... Requests>
using operation_self =
    typename operation_actor<Requests...>::template stateful_pointer<operation_state>;

/// Whether a message is one that waits in the queue of a lane, or concerns one that does.
template <class... Requests>
[[nodiscard]] bool is_for_lane(caf::mailbox_element& element) {
  if (element.mid.is_response()) return false;
  const auto& content = element.content();
  return (... || content.template match_elements<Requests>()) ||
         (... || content.template match_elements<Requests, request_options>()) ||
         content.template match_elements<bulk>() ||
         content.template match_elements<bulk, request_options>() ||
         content.template match_elements<cancel_request>();
}

/// The priority of a message for a lane.
[[nodiscard]] inline request_priority priority_of(caf::mailbox_element& element) {
  const auto& content = element.content();
  if (content.size() != 2 || !content.match_element<request_options>(1)) {
    return request_options{}.priority;
  }
  return content.get_as<request_options>(1).priority;
}

/// One lane of an actor.
struct lane_of_actor {
  const char* name;
  std::unique_ptr<executor> on;
  std::vector<const operation_row*> prepared;
  std::shared_ptr<lane_choice> lanes{};  ///< nullptr: the actor has no other lane
  std::size_t lane = 0;
};

/// Makes `self` the actor of a lane.
template <class Self>
void serve(Self* self, lane_of_actor&& with) {
  auto& state = state_of(self);
  state.name = with.name;
  if (with.lanes) state.lane.emplace(std::move(with.lanes), with.lane);
  serve(self, std::move(with.on), with.prepared);
}

/// The actor of one lane. Its operations reach the mailbox through a `lane_inbox`.
template <class... Requests>
class lane_actor : public std::remove_pointer_t<operation_self<Requests...>> {
 protected:
  using base = std::remove_pointer_t<operation_self<Requests...>>;

 public:
  lane_actor(caf::actor_config& config, const std::shared_ptr<lane_of_actor>& with)
      : base(config), with_(with) {}

  using base::enqueue;
  enqueue_result enqueue(caf::mailbox_element_ptr element, actor_context* context) override {
    if (!is_for_lane<Requests...>(*element)) return base::enqueue(std::move(element), context);
    try {
      take_in(element);
    } catch (...) {
      refuse(*element);
    }
    return enqueue_result(true);
  }
  /// Takes a message for the lane.
  /// @throws error `overloaded` if there is no room for it; then the message is unchanged
  /// @throws std::bad_alloc likewise
  void take_in(caf::mailbox_element_ptr& element) {
    if (inbox_->send(sender_of(element->sender), element)) return;
    throw error(errc::overloaded, "too many messages wait in front of the actor");
  }

 protected:
  typename base::behavior_type make_behavior() override {
    base* const self = this;
    serve_lane();
    sluice::on_down(self, [self](const caf::down_msg& down) { sender_ended(self, down); });
    // CAF 1.x tells of the end of an actor before it destroys the state.
    sluice::on_exit(self, [self](caf::exit_msg& exit) {
      if (!exit.reason) return;
      state_of(self).on.reset();
      self->quit(std::move(exit.reason));
    });
    return operation_handlers<Requests...>::make(self);
  }
  void serve_lane() {
    base* const self = this;
    state_of(self).inbox = inbox_;
    serve(self, std::move(*std::exchange(with_, nullptr)));
  }
  /// Takes a message that no lane has to see.
  enqueue_result put_into_mailbox(caf::mailbox_element_ptr element, actor_context* context) {
    return base::enqueue(std::move(element), context);
  }
  /// Answers a message that is not taken with the current exception.
  static void refuse(caf::mailbox_element& element) noexcept {
    reply_address(element.sender, take_stages(element), element.mid).send_error(current_error());
  }

 private:
  std::shared_ptr<lane_of_actor> with_;  // until the actor serves it
  const std::shared_ptr<lane_inbox> inbox_ = std::make_shared<lane_inbox>(
      [this](caf::mailbox_element_ptr&& element) { base::enqueue(std::move(element), nullptr); },
      lane_inbox::limits());
};

/// Starts the actor of one lane.
template <class... Requests>
[[nodiscard]] operation_actor<Requests...> spawn_lane(caf::actor_system& system,
                                                      lane_of_actor with) {
  return system.spawn<lane_actor<Requests...>, library_actor_options>(
      std::make_shared<lane_of_actor>(std::move(with)));
}

/// An actor with several lanes. It is the actor of the first lane. Operations do not pass through
/// its mailbox if they are for another one: the thread that sends them puts them into the mailbox
/// of that lane's actor.
///
/// It ends after the other lanes, and ends them. If one of them ends on its own, all end.
template <class... Requests>
class actor_with_lanes final : public lane_actor<Requests...> {
  using one_lane = lane_actor<Requests...>;
  using base = typename one_lane::base;

 public:
  actor_with_lanes(caf::actor_config& config, const std::shared_ptr<lane_of_actor>& first,
                   std::vector<caf::actor> others)
      : one_lane(config, first), lanes_(first->lanes), others_(std::move(others)) {}

  using one_lane::enqueue;
  enqueue_result enqueue(caf::mailbox_element_ptr element, actor_context* context) override {
    if (!is_for_lane<Requests...>(*element)) {
      return one_lane::put_into_mailbox(std::move(element), context);
    }
    try {
      lanes_->route(sender_of(element->sender), priority_of(*element), [&](std::size_t lane) {
        cancel_on_other_lanes(*element, lane);
        auto* const to =
            lane == 0
                ? this
                : static_cast<one_lane*>(caf::actor_cast<caf::abstract_actor*>(others_[lane - 1]));
        to->take_in(element);
      });
    } catch (...) {
      one_lane::refuse(*element);
    }
    return enqueue_result(true);
  }

 protected:
  typename base::behavior_type make_behavior() override {
    base* const self = this;
    one_lane::serve_lane();
    state_of(self).other_lanes.all = others_;
    for (const auto& other : others_) sluice::monitor(self, other);
    sluice::on_down(self, [this](const caf::down_msg& down) {
      sender_ended(static_cast<base*>(this), down);
      lane_ended(down);
    });
    sluice::on_exit(self, [this](caf::exit_msg& exit) {
      if (exit.reason) end(exit.reason);
    });
    return operation_handlers<Requests...>::make(self);
  }

 private:
  /// Passes a `cancel_request` for the lane `here` on to the other lanes. Called before the next
  /// message of its sender, which may go to one of them.
  void cancel_on_other_lanes(caf::mailbox_element& element, std::size_t here) {
    if (!element.content().template match_elements<cancel_request>()) return;
    const cancel_launched copy{sender_of(element.sender).id,
                               element.content().template get_as<cancel_request>(0).id};
    const auto send = [&](const caf::strong_actor_ptr& to) {
      sluice::detail::enqueue(to, nullptr, caf::make_message_id(), copy);
    };
    if (here != 0) send(caf::actor_cast<caf::strong_actor_ptr>(this));
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (i + 1 != here) send(caf::actor_cast<caf::strong_actor_ptr>(others_[i]));
    }
  }
  /// Ends the other lanes, and this actor after them.
  void end(const caf::error& reason) {
    if (ending_) return;
    ending_ = reason;
    for (const auto& other : state_of(this).other_lanes.all) {
      this->send_exit(other, caf::exit_reason::user_shutdown);
    }
  }
  void lane_ended(const caf::down_msg& down) {
    auto& others = state_of(this).other_lanes.all;
    if (std::erase_if(others, [&](const auto& o) { return o.address() == down.source; }) == 0) {
      return;
    }
    end(down.reason);
    if (!others.empty()) return;
    state_of(this).on.reset();
    this->quit(*ending_);
  }

  const std::shared_ptr<lane_choice> lanes_;
  const std::vector<caf::actor> others_;  // read by all senders
  std::optional<caf::error> ending_;      // why the actor ends, while it waits for the others
};

/// Starts an actor with the lanes that `service` states.
template <class... Requests>
[[nodiscard]] operation_actor<Requests...> spawn_lanes(
    caf::actor_system& system, const char* name, const std::shared_ptr<device_service>& service,
    const std::shared_ptr<kernel_trace>& trace, const std::vector<const operation_row*>& prepared) {
  // The executors first, so that a failure is an error of this function.
  std::vector<lane_of_actor> lanes(service->lanes_per_actor() + service->high_priority_lanes());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    executor_options options;
    if (i >= service->lanes_per_actor()) options.priority = stream_priority::high;
    lanes[i] = {.name = name,
                .on = std::make_unique<executor>(service, trace, options),
                .prepared = prepared};
  }
  if (lanes.size() == 1) return spawn_lane<Requests...>(system, std::move(lanes.front()));
  const auto choice = std::make_shared<lane_choice>(lanes.size(), service->high_priority_lanes());
  std::vector<caf::actor> others;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lanes[i].lanes = choice;
    lanes[i].lane = i;
    if (i == 0) continue;
    others.push_back(
        caf::actor_cast<caf::actor>(spawn_lane<Requests...>(system, std::move(lanes[i]))));
  }
  return system.spawn<actor_with_lanes<Requests...>, library_actor_options>(
      std::make_shared<lane_of_actor>(std::move(lanes.front())), std::move(others));
}

}  // namespace sluice::detail
