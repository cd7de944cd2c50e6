// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_handlers.hpp>
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
  std::unique_ptr<executor> on;  ///< nullptr: made when the lane is prepared
  std::vector<const operation_row*> prepared;
  std::shared_ptr<lane_choice> lanes{};  ///< nullptr: the actor has no other lane
  std::size_t lane = 0;
  std::function<std::unique_ptr<executor>()> make_executor{};  ///< of a lane opened on demand
};

/// Makes `self` the actor of a lane.
template <class Self>
void serve(Self* self, lane_of_actor&& with) {
  auto& state = state_of(self);
  state.name = with.name;
  if (with.lanes) state.lane.emplace(std::move(with.lanes), with.lane);
  state.prepared = std::move(with.prepared);
  state.make_executor = std::move(with.make_executor);
  if (with.on) return take_executor(self, std::move(with.on));
  state.tend = [self] {
    tend_lane(self);
  };
  state.tend();
}

/// Drops the executor of an actor that ends, and with it the service.
template <class Self>
void drop_executor(Self* self) noexcept {
  auto& state = state_of(self);
  state.on.reset();
  state.make_executor = nullptr;
  state.tend = nullptr;
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
    const bool cancels = element->content().template match_elements<cancel_request>();
    if (inbox_->send(sender_of(element->sender), element, cancels)) return;
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
      drop_executor(self);
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
/// of that lane's actor. Lanes that are opened on demand get their actor when they are wanted
/// first, and keep it; while they are closed, they have no executor.
///
/// It ends after the other lanes, and ends them. If one of them ends on its own, all end.
template <class... Requests>
class actor_with_lanes final : public lane_actor<Requests...> {
  using one_lane = lane_actor<Requests...>;
  using base = typename one_lane::base;

 public:
  /// Starts the actor of a lane that is opened on demand.
  using lane_spawner = std::function<operation_actor<Requests...>(std::size_t lane)>;

  /// The actor of `first` and of the lanes behind it, whose actors are `others`. Without an actor,
  /// a lane gets one from `spawn` when it is wanted.
  actor_with_lanes(caf::actor_config& config, const std::shared_ptr<lane_of_actor>& first,
                   const std::vector<caf::actor>& others, lane_spawner spawn = nullptr)
      : one_lane(config, first),
        lanes_(first->lanes),
        others_(others.size()),
        spawn_(std::move(spawn)) {
    for (std::size_t i = 0; i < others.size(); ++i) {
      if (!others[i]) continue;
      others_[i] = lane_of(others[i]);
      handles_.push_back(others[i]);
    }
    if (spawn_) lanes_->on_wanted([owner = this->address()] { post_wake(owner); });
  }

  using one_lane::enqueue;
  enqueue_result enqueue(caf::mailbox_element_ptr element, actor_context* context) override {
    if (!is_for_lane<Requests...>(*element)) {
      return one_lane::put_into_mailbox(std::move(element), context);
    }
    try {
      lanes_->route(sender_of(element->sender), priority_of(*element), [&](std::size_t lane) {
        cancel_on_other_lanes(*element, lane);
        one_lane* const to = lane == 0 ? this : others_[lane - 1].load(std::memory_order_acquire);
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
    state_of(self).other_lanes.all = handles_;
    for (const auto& other : handles_) sluice::monitor(self, other);
    if (spawn_) {
      state_of(self).tend = [this, spawn = std::exchange(spawn_, nullptr)] {
        prepare_wanted_lanes(spawn);
      };
    }
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
      auto* const other = others_[i].load(std::memory_order_acquire);
      if (i + 1 != here && other != nullptr) send(caf::actor_cast<caf::strong_actor_ptr>(other));
    }
  }
  [[nodiscard]] static one_lane* lane_of(const caf::actor& handle) {
    return static_cast<one_lane*>(caf::actor_cast<caf::abstract_actor*>(handle));
  }
  /// Starts the actor of `others_[i]`, which does nothing yet.
  [[nodiscard]] one_lane* start_lane(std::size_t i, const lane_spawner& spawn) {
    auto& all = state_of(this).other_lanes.all;
    handles_.reserve(handles_.size() + 1);
    all.reserve(all.size() + 1);
    // CAF 0.17 counts an actor whose thread cannot be started, and its system then never ends.
    std::thread([] {}).join();
    const auto& made = handles_.emplace_back(caf::actor_cast<caf::actor>(spawn(i + 1)));
    all.push_back(made);
    auto* const lane = lane_of(made);
    others_[i].store(lane, std::memory_order_release);
    sluice::monitor(static_cast<base*>(this), made);
    return lane;
  }
  /// Starts the actors of the lanes that are wanted, or wakes them.
  void prepare_wanted_lanes(const lane_spawner& spawn) noexcept {
    if (ending_) return;
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (lanes_->standing_of(i + 1) != lane_choice::standing::wanted) continue;
      try {
        auto* other = others_[i].load(std::memory_order_relaxed);
        if (other == nullptr) other = start_lane(i, spawn);
        // Once the senders know the actor. Until then it does nothing.
        if (lanes_->prepare(i + 1)) post_wake(other->address());
      } catch (...) {
        lanes_->close(i + 1, true);  // there is no memory or no thread
      }
    }
  }
  /// Ends the other lanes, and this actor after them.
  void end(const caf::error& reason) {
    if (ending_) return;
    ending_ = reason;
    const auto& others = state_of(this).other_lanes.all;
    if (others.empty()) return quit_last();
    for (const auto& other : others) this->send_exit(other, caf::exit_reason::user_shutdown);
  }
  void quit_last() {
    drop_executor(static_cast<base*>(this));
    this->quit(*ending_);
  }
  void lane_ended(const caf::down_msg& down) {
    auto& others = state_of(this).other_lanes.all;
    if (std::erase_if(others, [&](const auto& o) { return o.address() == down.source; }) == 0) {
      return;
    }
    if (!ending_) return end(down.reason);
    if (others.empty()) quit_last();
  }

  const std::shared_ptr<lane_choice> lanes_;
  // Read by all senders; nullptr: the lane has not been prepared yet.
  std::vector<std::atomic<one_lane*>> others_;
  std::vector<caf::actor> handles_;   // own `others_`
  lane_spawner spawn_;                // until the actor runs; null: no lane is opened on demand
  std::optional<caf::error> ending_;  // why the actor ends, while it waits for the others
};

/// Starts an actor with the lanes that `service` states.
template <class... Requests>
[[nodiscard]] operation_actor<Requests...> spawn_lanes(
    caf::actor_system& system, const char* name, const std::shared_ptr<device_service>& service,
    const std::shared_ptr<kernel_trace>& trace, const std::vector<const operation_row*>& prepared) {
  const auto ordinary = service->lanes_per_actor();
  const auto open = service->open_lanes_per_actor();
  const auto count = ordinary + service->high_priority_lanes();
  const auto choice =
      count == 1 ? nullptr
                 : std::make_shared<lane_choice>(count, service->high_priority_lanes(), open);
  const auto lane_at = [=](std::size_t i) {
    executor_options options;
    if (i >= ordinary) options.priority = stream_priority::high;
    // It is open only while the plans of all lanes fit into what the actor may keep.
    if (i >= open) options.max_plan_bytes /= 2;
    auto make = [=] {
      return std::make_unique<executor>(service, trace, options);
    };
    lane_of_actor lane{
        .name = name, .on = nullptr, .prepared = prepared, .lanes = choice, .lane = i};
    if (i < open) {
      lane.on = make();
    } else {
      lane.make_executor = make;
    }
    return lane;
  };
  // The executors first, so that a failure is an error of this function.
  std::vector<lane_of_actor> lanes;
  for (std::size_t i = 0; i < open; ++i) lanes.push_back(lane_at(i));
  if (count == 1) return spawn_lane<Requests...>(system, std::move(lanes.front()));
  // A message of high priority may go to its lane before that is open.
  std::vector<caf::actor> others(count - 1);
  for (std::size_t i = 1; i < count; ++i) {
    if (i >= open && i < ordinary) continue;
    others[i - 1] = caf::actor_cast<caf::actor>(
        spawn_lane<Requests...>(system, i < open ? std::move(lanes[i]) : lane_at(i)));
  }
  typename actor_with_lanes<Requests...>::lane_spawner spawn;
  if (open != count) {
    spawn = [&system, lane_at](std::size_t i) {
      return spawn_lane<Requests...>(system, lane_at(i));
    };
  }
  return system.spawn<actor_with_lanes<Requests...>, library_actor_options>(
      std::make_shared<lane_of_actor>(std::move(lanes.front())), others, std::move(spawn));
}

}  // namespace sluice::detail
