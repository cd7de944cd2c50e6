// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/lanes/lane_inbox.hpp"
#include "actors/lanes/request_table.hpp"

#include <sluice/actors/operation_actor.hpp>
#include <sluice/actors/reply.hpp>
#include <sluice/actors/request_type.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/lane.hpp>
#include <sluice/envelope/timer.hpp>
#include <sluice/envelope/wait_policy.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/operations/lane_choice.hpp>
#include <sluice/operations/operation_descriptor.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace sluice::detail {

/// Ends actors when it is destroyed.
struct ended_lanes {
  ended_lanes() = default;
  ended_lanes(const ended_lanes&) = delete;
  ended_lanes& operator=(const ended_lanes&) = delete;
  ~ended_lanes() {
    for (const auto& actor : actors) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
  std::vector<caf::actor> actors;
};

/// A request for the status of all lanes. It counts as a message of its sender until it is
/// answered.
struct status_request {
  request_sender sender{};
  reply_token<queue_status> token{};
};

/// The state of an actor that runs operations.
struct operation_state {
  operation_state() = default;
  operation_state(const operation_state&) = delete;
  operation_state& operator=(const operation_state&) = delete;
  ~operation_state() {
    // The mailbox answers what it still gets, or has got and not handled.
    if (inbox) inbox->close();
    const error ended(errc::shutting_down, "the actor has ended");
    for (auto& request : status_requests) request.token.fail(ended);
  }

  std::shared_ptr<const request_table> requests;
  std::shared_ptr<lane_inbox> inbox;
  std::optional<lane_choice::lane> lane;       // of an actor with several lanes
  std::unique_ptr<sluice::executor> executor;  // nullptr while the lane is closed
  std::function<std::unique_ptr<sluice::executor>()> make_executor;
  std::vector<const operation_descriptor*> prepared;  // whose library objects the planner makes
  std::function<void()> tend;                         // called with each wake; null: nothing to do
  // When the lane is closed unless it has handled more messages than so many.
  timer::time_point idle_until{};
  std::uint64_t idle_since = 0;
  // The actor's thread makes the replies, and the completion thread destroys them.
  recycled_memory_owner<> replies{new recycled_memory};
  std::set<caf::actor_id> watched;              // senders whose end drops requests
  plan_status former_plans;                     // the counts of executors that the lane had before
  std::vector<status_request> status_requests;  // for the next sum over the lanes
  bool sums_status = false;                     // over the lanes, for earlier requests
  const char* name = "sluice.operations";
  ended_lanes other_lanes;  // of the first lane's actor; `kill` reaches no handler
};

/// Has `self` woken when the lane may have been without work for long enough to be closed.
template <class Self>
void watch_idle(Self* self) {
  auto& state = state_of(self);
  auto& service = state.executor->lane().service();
  state.idle_since = state.lane->handled();
  // A time that never comes must not overflow the clock, and one that has come would be looked at
  // with each wake.
  constexpr std::chrono::nanoseconds shortest = std::chrono::milliseconds(1);
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24 * 365);
  state.idle_until =
      service.timer().now() + std::clamp(service.idle_lane_timeout(), shortest, longest);
  (void)service.timer().call_at(state.idle_until, [owner = self->address()] { post_wake(owner); });
}

/// Makes `self` the owner of an executor. The planner makes the library objects of its operations.
/// @throws std::bad_alloc if there is no memory
template <class Self>
void take_executor(Self* self, std::unique_ptr<executor> executor) {
  auto& state = state_of(self);
  if constexpr (detached_actors_have_own_threads) {
    executor->lane().runtime().device().prepare_own_thread();
  }
  executor->on_wake([owner = self->address()] { post_wake(owner); });
  executor->on_more([self] { return has_message(self); });
  if (state.lane) executor->join_lanes(*state.lane);
  for (const auto* descriptor : state.prepared) executor->prepare(*descriptor);
  state.executor = std::move(executor);
}

/// The executor of `self`. A message may reach a lane that has been closed.
/// @throws error as `executor`
template <class Self>
[[nodiscard]] executor& executor_of(Self* self) {
  auto& state = state_of(self);
  if (!state.executor) {
    take_executor(self, state.make_executor());
    watch_idle(self);
  }
  return *state.executor;
}

/// Drops the executor of a lane that is closed.
inline void close_executor(operation_state& state) noexcept {
  const auto plans = state.executor->status().plans;
  state.former_plans.made += plans.made;
  state.former_plans.capture_attempts += plans.capture_attempts;
  state.executor.reset();
}

/// What waits on the lane of `state`.
[[nodiscard]] inline queue_status status_of(const operation_state& state) noexcept {
  auto status = state.executor ? state.executor->status() : queue_status();
  status.plans.made += state.former_plans.made;
  status.plans.capture_attempts += state.former_plans.capture_attempts;
  return status;
}

/// Opens or closes the lane of `self`, which is opened on demand.
template <class Self>
void tend_lane(Self* self) noexcept {
  using standing = lane_choice::standing;
  auto& state = state_of(self);
  auto& choice = state.lane->choice();
  const auto number = state.lane->number();
  try {
    if (choice.standing_of(number) == standing::prepared) (void)executor_of(self);
    if (!state.executor) return;
    const auto plans = state.executor->plans_of_other_lanes();
    if (plans == executor::shared_plans::unavailable) {
      if (choice.standing_of(number) != standing::closed) choice.close(number, true);
    } else if (plans == executor::shared_plans::made) {
      choice.open(number);
    }
    const auto& lane = state.executor->lane();
    const bool has_work = state.lane->has_work() || lane.in_flight() != 0;
    if (!has_work && choice.standing_of(number) == standing::closed) return close_executor(state);
    if (lane.service().timer().now() >= state.idle_until) {
      if (has_work || state.lane->handled() != state.idle_since) return watch_idle(self);
      choice.close(number);
    }
    if (!has_work && choice.standing_of(number) == standing::closed) close_executor(state);
  } catch (...) {
    choice.close(number, true);  // there is no memory, or the device is lost
  }
}

/// Waits a little for the next message of `self`, so that the kernel need not wake its thread.
template <class Self>
void stay_awake(Self* self) noexcept {
  const auto& executor = state_of(self).executor;
  if (!executor) return;
  (void)spinners::of_process().spin(executor->lane().service().waiting(),
                                    [self] { return has_message(self); });
}

/// Notes what the lane of `self` has on a GPU, whose launches overlap on several streams. The host
/// device computes on all processors already.
template <class Self>
void note_device(Self* self) noexcept {
  auto& state = state_of(self);
  if (!state.lane || !state.executor) return;
  const auto& lane = state.executor->lane();
  if (lane.runtime().device().id().kind == device_kind::host) return;
  const auto unfinished = lane.occupied();
  state.lane->note_device(unfinished != 0 && has_message(self) ? 0 : unfinished,
                          lane.dependent_launches());
}

/// Ends the handler of a message that may have changed the queue.
template <class Self>
void end_message(Self* self) noexcept {
  auto& lane = state_of(self).lane;
  note_device(self);
  if (lane) lane->publish(true);
  stay_awake(self);
  if (lane && !has_message(self)) lane->publish(false);
}
/// Ends the handler of a message that has waited in front of the lane, whatever is thrown.
template <class Self>
class handled_message {
 public:
  handled_message(Self* self, request_sender sender) noexcept : self_(self), sender_(sender) {}
  handled_message(const handled_message&) = delete;
  handled_message& operator=(const handled_message&) = delete;
  ~handled_message() {
    if (const auto& inbox = state_of(self_).inbox) inbox->note_handled(sender_);
    end_message(self_);
  }

 private:
  Self* const self_;
  const request_sender sender_;
};
/// The same for a message that the choice of a lane has passed on.
template <class Self>
class routed_message {
 public:
  routed_message(Self* self, request_sender sender) noexcept
      : self_(self), sender_(sender), handled_(self, sender) {}
  routed_message(const routed_message&) = delete;
  routed_message& operator=(const routed_message&) = delete;
  ~routed_message() {
    if (auto& lane = state_of(self_).lane) lane->note_handled(sender_);
  }

 private:
  Self* const self_;
  const request_sender sender_;
  const handled_message<Self> handled_;  // ends last
};

/// Has the end of a sender drop its requests, if their options ask for it.
template <class Self>
void watch_sender(Self* self, const caf::strong_actor_ptr& sender, const request_options& options) {
  if (!options.while_alive || !sender) return;
  if (state_of(self).watched.insert(sender->id()).second) monitor(self, sender);
}

/// The lane of `self` for one request.
template <class Self>
class lane_of_request final : public request_lane {
 public:
  lane_of_request(Self* self, const request_options& options) noexcept
      : self_(self), options_(options) {}

  [[nodiscard]] executor& open_executor() override {
    watch_sender(self_, self_->current_sender(), options_);
    return executor_of(self_);
  }
  [[nodiscard]] recycled_memory& replies() noexcept override { return *state_of(self_).replies; }

 private:
  Self* const self_;
  const request_options& options_;
};

/// Takes the message that `self` handles if it is a request of one of its types. Returns whether it
/// is.
template <class Self>
[[nodiscard]] bool take_request(Self* self, message_content& content) noexcept {
  const auto* const type = state_of(self).requests->find(content);
  if (type == nullptr) return false;
  const request_options defaults;
  const auto& options =
      content.size() == 2 ? content.template get_as<request_options>(1) : defaults;
  const auto sender = sender_of(self->current_sender());
  const routed_message handled(self, sender);
  auto address = take_address(self);
  const auto failure = failure_of([&] {
    use_unshared(content, [&](message_content& message) {
      lane_of_request<Self> lane(self, options);
      type->submit(message, options, sender, address, lane);
    });
  });
  if (failure) address.send_error(*failure);
  return true;
}

/// Takes a bulk of `self`.
template <class Self>
[[nodiscard]] auto take_bulk(Self* self, bulk& request, const request_options& options) {
  const auto client = self->current_sender();
  const auto sender = sender_of(client);
  const routed_message handled(self, sender);
  auto promise = take_promise<bulk_results>(self);
  answer_failures(promise.token, [&] {
    watch_sender(self, client, options);
    executor_of(self).submit(std::move(request), options, promise.token, sender);
  });
  return promise.delegated;
}

/// Drops the waiting requests of a client that has ended.
template <class Self>
void sender_ended(Self* self, const caf::down_msg& down) {
  if (state_of(self).watched.erase(down.source.id()) == 0) return;
  if (auto& executor = state_of(self).executor) executor->sender_ended({down.source.id()});
  end_message(self);
}

/// The sum of what waits on all lanes of an actor, for requests that wait for it. If the actor ends
/// before it is complete, they are answered with a failure.
class status_sum {
 public:
  explicit status_sum(std::size_t other_lanes) noexcept : missing_(other_lanes) {}
  status_sum(const status_sum&) = delete;
  status_sum& operator=(const status_sum&) = delete;
  ~status_sum() { fail(); }
  void begin(std::vector<status_request> requests, const queue_status& first) noexcept {
    requests_ = std::move(requests);
    sum_ = first;
  }
  /// Adds the status of another lane; nullptr: the lane has ended.
  void add(const queue_status* status) noexcept {
    --missing_;
    if (status == nullptr) {
      has_failed_ = true;
    } else {
      sum_ += *status;
    }
  }
  [[nodiscard]] bool is_complete() const noexcept { return missing_ == 0; }
  void answer(const std::shared_ptr<lane_inbox>& inbox) noexcept {
    if (has_failed_) {
      fail();
    } else {
      for (auto& request : requests_) request.token.succeed(sum_);
    }
    for (const auto& request : requests_) {
      if (inbox) inbox->note_handled(request.sender);
    }
    requests_.clear();
  }

 private:
  void fail() noexcept {
    const error ended(errc::shutting_down, "a lane of the actor has ended");
    for (auto& request : requests_) request.token.fail(ended);
  }

  std::vector<status_request> requests_;
  queue_status sum_;
  std::size_t missing_;
  bool has_failed_ = false;
};

/// Answers the requests for the status of all lanes that have come since the last sum was begun.
template <class Self>
void sum_status(Self* self) noexcept {
  auto& state = state_of(self);
  const auto& others = state.other_lanes.actors;
  std::shared_ptr<status_sum> sum;
  if (const auto failure = failure_of([&] { sum = std::make_shared<status_sum>(others.size()); })) {
    for (auto& request : std::exchange(state.status_requests, {})) {
      request.token.fail(*failure);
      if (state.inbox) state.inbox->note_handled(request.sender);
    }
    return;
  }
  sum->begin(std::exchange(state.status_requests, {}), status_of(state));
  if (others.empty()) return sum->answer(state.inbox);
  state.sums_status = true;
  const auto add = [self, sum](const queue_status* status) noexcept {
    sum->add(status);
    if (!sum->is_complete()) return;
    sum->answer(state_of(self).inbox);
    state_of(self).sums_status = false;
    if (!state_of(self).status_requests.empty()) sum_status(self);
    end_message(self);
  };
  for (const auto& other : others) {
    const auto failure = failure_of([&] {
      request(self, other, caf::infinite, get_lane_status{})
          .then([add](const queue_status& status) { add(&status); },
                [add](const caf::error&) { add(nullptr); });
    });
    if (failure) add(nullptr);
  }
}

/// Takes a request for the status of all lanes. While a sum is being made, the requests that come
/// share the next one.
template <class Self>
[[nodiscard]] auto take_status_request(Self* self) {
  auto& state = state_of(self);
  const auto sender = sender_of(self->current_sender());
  auto promise = take_promise<queue_status>(self);
  const auto failure = failure_of([&] {
    state.status_requests.push_back({sender, std::move(promise.token)});
  });
  if (failure) {
    const handled_message handled(self, sender);
    return promise.delegated;
  }
  if (!state.sums_status) sum_status(self);
  end_message(self);
  return promise.delegated;
}

/// The behavior of an actor that runs operations, with `more` handlers.
template <class Self, class... More>
[[nodiscard]] caf::behavior operation_behavior(Self* self, More... more) {
  on_other_message(self, [self](message_content& content) { return take_request(self, content); });
  return {[self](wake) {
            auto& state = state_of(self);
            if (state.executor) state.executor->work();
            if (state.tend) state.tend();
            end_message(self);
          },
          [self](bulk& request) { return take_bulk(self, request, {}); },
          [self](bulk& request, const request_options& options) {
            return take_bulk(self, request, options);
          },
          [self](const cancel_request& request) {
            const auto sender = sender_of(self->current_sender());
            const routed_message handled(self, sender);
            if (auto& executor = state_of(self).executor) executor->cancel(sender, request.id);
          },
          [self](const cancel_launched& request) {
            if (auto& executor = state_of(self).executor)
              executor->cancel({request.sender}, request.id);
            end_message(self);
          },
          [self](get_queue_status) { return take_status_request(self); },
          [self](get_lane_status) {
            end_message(self);
            return status_of(state_of(self));
          },
          std::move(more)...};
}

}  // namespace sluice::detail
