// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/envelope/lane.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <utility>

namespace sluice::actors {

/// Sent to a library actor, by the completion thread, when its lane has room again.
using room_atom = caf::atom_constant<caf::atom("room")>;

/// A library actor's lane and the requests that wait because the lane has its fill of launches.
/// They keep their order. Only the owning actor may call it.
class lane_queue {
 public:
  explicit lane_queue(std::shared_ptr<device_service> service, lane_options options = {})
      : lane_(std::move(service), options) {}

  /// Says that `owner`, which calls this on its own thread before the first launch, launches here
  /// and is to be woken when there is room.
  void serve(const caf::actor_addr& owner) {
    if constexpr (detached_actors_have_own_threads) runtime().device().prepare_own_thread();
    lane_.on_room([owner] {
      if (const auto actor = caf::actor_cast<caf::strong_actor_ptr>(owner)) {
        actor->enqueue(nullptr, caf::make_message_id(), caf::make_message(room_atom::value),
                       nullptr);
      }
    });
  }

  [[nodiscard]] sluice::lane& lane() noexcept { return lane_; }
  [[nodiscard]] device_runtime& runtime() const noexcept { return lane_.runtime(); }

  /// Runs `launch` now, or when the lane has room. `launch` answers its request on every path and
  /// does not throw.
  void run(std::function<void()> launch) {
    waiting_.push_back(std::move(launch));
    room();
  }
  /// Runs what waits as far as there is room.
  void room() {
    while (!waiting_.empty()) {
      if (lane_.full() && lane_.want_room()) return;  // woken later
      const auto launch = std::move(waiting_.front());
      waiting_.pop_front();
      launch();
    }
  }
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }

 private:
  sluice::lane lane_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace sluice::actors
