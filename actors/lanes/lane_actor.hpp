// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/lanes/inbox_actor.hpp"
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
class lane_actor : public inbox_actor<State> {
  using base = inbox_actor<State>;

 public:
  lane_actor(caf::actor_config& config, const std::shared_ptr<lane_of_actor>& lane)
      : base(config, lane->requests), lane_(lane) {}

 protected:
  using base::self;

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
    state_of(self()).inbox = this->inbox();
    serve(self(), std::move(*std::exchange(lane_, nullptr)));
  }

 private:
  std::shared_ptr<lane_of_actor> lane_;  // until the actor serves it
};

}  // namespace sluice::detail
