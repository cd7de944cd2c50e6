// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/lanes/lane_actor.hpp"

#include <sluice/actors/caf.hpp>
#include <sluice/operations/lane_choice.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::detail {

/// An actor with several lanes. It is the actor of the first lane. Operations do not pass through
/// its mailbox if they are for another one: the thread that sends them puts them into the mailbox
/// of that lane's actor. Lanes that are opened on demand get their actor when they are wanted
/// first, and keep it; while they are closed, they have no executor.
///
/// It ends after the other lanes, and ends them. If one of them ends on its own, all end.
class actor_with_lanes final : public lane_actor<operation_state> {
  using single_lane = lane_actor<operation_state>;

 public:
  /// Starts the actor of a lane that is opened on demand.
  using lane_spawner = std::function<caf::actor(std::size_t lane)>;

  /// The actor of `first` and of the lanes behind it, whose actors are `others`. Without an actor,
  /// a lane gets one from `spawn` when it is wanted.
  actor_with_lanes(caf::actor_config& config, const std::shared_ptr<lane_of_actor>& first,
                   const std::vector<caf::actor>& others, lane_spawner spawn = nullptr)
      : single_lane(config, first),
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

  using single_lane::enqueue;
  enqueue_result enqueue(caf::mailbox_element_ptr element, actor_context* context) override {
    const auto size = waiting_size(*element);
    // The first lane answers for all.
    if (!size || element->content().match_elements<get_queue_status>()) {
      return single_lane::enqueue(std::move(element), context);
    }
    try {
      lanes_->route(sender_of(element->sender), priority_of(element->content()),
                    program_of(element->content(), *size), [&](std::size_t lane) {
                      cancel_on_other_lanes(*element, lane);
                      single_lane* const target =
                          lane == 0 ? this : others_[lane - 1].load(std::memory_order_acquire);
                      target->take_in(element, *size);
                    });
    } catch (...) {
      single_lane::refuse(*element);
    }
    return enqueue_result(true);
  }

 protected:
  caf::behavior make_behavior() override {
    single_lane::serve_lane();
    state_of(self()).other_lanes.actors = handles_;
    for (const auto& other : handles_) sluice::monitor(self(), other);
    if (spawn_) {
      state_of(self()).tend = [this, spawn = std::exchange(spawn_, nullptr)] {
        prepare_wanted_lanes(spawn);
      };
    }
    sluice::on_down(self(), [this](const caf::down_msg& down) {
      sender_ended(self(), down);
      lane_ended(down);
    });
    sluice::on_exit(self(), [this](caf::exit_msg& exit) {
      if (exit.reason) end(exit.reason);
    });
    return operation_behavior(self());
  }

 private:
  /// Passes a `cancel_request` for `lane` on to the other lanes. Called before the next
  /// message of its sender, which may go to one of them.
  void cancel_on_other_lanes(caf::mailbox_element& element, std::size_t lane) {
    if (!element.content().match_elements<cancel_request>()) return;
    const cancel_launched copy{sender_of(element.sender).id,
                               element.content().get_as<cancel_request>(0).id};
    const auto send = [&](const caf::strong_actor_ptr& target) {
      sluice::detail::enqueue(target, nullptr, caf::make_message_id(), copy);
    };
    if (lane != 0) send(caf::actor_cast<caf::strong_actor_ptr>(this));
    for (std::size_t i = 0; i < others_.size(); ++i) {
      auto* const other = others_[i].load(std::memory_order_acquire);
      if (i + 1 != lane && other != nullptr) send(caf::actor_cast<caf::strong_actor_ptr>(other));
    }
  }
  [[nodiscard]] static single_lane* lane_of(const caf::actor& handle) {
    return static_cast<single_lane*>(caf::actor_cast<caf::abstract_actor*>(handle));
  }
  /// Starts the actor of `others_[i]`, which does nothing yet.
  [[nodiscard]] single_lane* start_lane(std::size_t i, const lane_spawner& spawn) {
    auto& actors = state_of(self()).other_lanes.actors;
    handles_.reserve(handles_.size() + 1);
    actors.reserve(actors.size() + 1);
    // CAF 0.17 counts an actor whose thread cannot be started, and its system then never ends.
    std::thread([] {}).join();
    const auto& actor = handles_.emplace_back(spawn(i + 1));
    actors.push_back(actor);
    auto* const lane = lane_of(actor);
    others_[i].store(lane, std::memory_order_release);
    sluice::monitor(self(), actor);
    return lane;
  }
  /// Starts the actors of the lanes that are wanted, or wakes them.
  void prepare_wanted_lanes(const lane_spawner& spawn) noexcept {
    if (ending_) return;
    bool is_any_wanted = false;
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (lanes_->standing_of(i + 1) != lane_choice::standing::wanted) continue;
      is_any_wanted = true;
      try {
        auto* other = others_[i].load(std::memory_order_relaxed);
        if (other == nullptr) other = start_lane(i, spawn);
        // Once the senders know the actor. Until then it does nothing.
        if (lanes_->prepare(i + 1)) post_wake(other->address());
      } catch (...) {
        lanes_->close(i + 1, true);  // there is no memory or no thread
      }
    }
    // One that has been closed to make room gives its memory back.
    for (std::size_t i = 0; is_any_wanted && i < others_.size(); ++i) {
      if (lanes_->standing_of(i + 1) != lane_choice::standing::closed) continue;
      if (auto* const other = others_[i].load(std::memory_order_relaxed)) {
        post_wake(other->address());
      }
    }
  }
  /// Ends the other lanes, and this actor after them.
  void end(const caf::error& reason) {
    if (ending_) return;
    ending_ = reason;
    const auto& others = state_of(self()).other_lanes.actors;
    if (others.empty()) return quit_last();
    for (const auto& other : others) this->send_exit(other, caf::exit_reason::user_shutdown);
  }
  void quit_last() {
    drop_executor(self());
    this->quit(*ending_);
  }
  void lane_ended(const caf::down_msg& down) {
    auto& others = state_of(self()).other_lanes.actors;
    if (std::erase_if(others, [&](const auto& o) { return o.address() == down.source; }) == 0) {
      return;
    }
    if (!ending_) return end(down.reason);
    if (others.empty()) quit_last();
  }

  const std::shared_ptr<lane_choice> lanes_;
  // Read by all senders; nullptr: the lane has not been prepared yet.
  std::vector<std::atomic<single_lane*>> others_;
  std::vector<caf::actor> handles_;   // own `others_`
  lane_spawner spawn_;                // until the actor runs; null: no lane is opened on demand
  std::optional<caf::error> ending_;  // why the actor ends, while it waits for the others
};

}  // namespace sluice::detail
