// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_actor.hpp>
#include <sluice/actors/reply.hpp>
#include <sluice/envelope/wait_policy.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/operations/indexed_operation.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {
namespace detail {

/// How library actors are spawned. Hidden: an actor system that ends waits for all other actors
/// first, and would wait for ever for those that a `scoped_device` keeps.
inline constexpr auto library_actor_options = caf::detached + caf::hidden;

/// Sends `wake` to `owner` unless it has ended. Any thread may call it.
inline void post_wake(const caf::actor_addr& owner) noexcept {
  const auto actor = caf::actor_cast<caf::strong_actor_ptr>(owner);
  while (actor) {
    try {
      enqueue(actor, nullptr, caf::make_message_id(), wake{});
      return;
    } catch (const std::bad_alloc&) {
      // Without the message the requests that wait would never be answered.
      std::this_thread::yield();
    }
  }
}

/// The state of an actor that runs operations.
struct operation_state {
  std::unique_ptr<executor> on;
  // The actor's thread makes the replies, and the completion thread destroys them.
  std::shared_ptr<recycled_memory> replies = std::make_shared<recycled_memory>();
  std::set<caf::actor_id> watched;  // senders whose end drops requests
  const char* name = "sluice.operations";
};

/// The sender of the current message. Messages without a sender share one.
template <class Self>
[[nodiscard]] request_sender sender_of(Self* self) {
  const auto& sender = self->current_sender();
  return {sender ? std::uint64_t{sender->id()} : std::numeric_limits<std::uint64_t>::max()};
}

/// Waits a little for the next message of `self`, so that the kernel need not wake its thread.
template <class Self>
void linger(Self* self) noexcept {
  (void)spinners::of_process().spin(state_of(self).on->lane().service().waiting(),
                                    [self] { return has_message(self); });
}

/// Has the end of a sender drop its requests, if their options ask for it.
template <class Self>
void watch_sender(Self* self, const caf::strong_actor_ptr& sender, const request_options& options) {
  if (!options.while_alive || !sender) return;
  if (state_of(self).watched.insert(sender->id()).second) monitor(self, sender);
}

/// Takes a request of `self`.
template <class Request, class Self>
[[nodiscard]] auto take_operation(Self* self, Request& request, const request_options& options) {
  const auto sender = self->current_sender();
  const auto from = sender_of(self);
  auto taken = take_request(self, request, state_of(self).replies);
  answer_failures(taken.token, [&] {
    watch_sender(self, sender, options);
    state_of(self).on->submit(take_operation_of(request), options, taken.token, from);
  });
  linger(self);
  return taken.delegated;
}

/// Takes a bulk of `self`.
template <class Self>
[[nodiscard]] auto take_bulk(Self* self, bulk& request, const request_options& options) {
  const auto sender = self->current_sender();
  const auto from = sender_of(self);
  auto taken = take_promise<bulk_results>(self);
  answer_failures(taken.token, [&] {
    watch_sender(self, sender, options);
    state_of(self).on->submit(std::move(request), options, taken.token, from);
  });
  linger(self);
  return taken.delegated;
}

/// The handlers of one request type, alone and followed by options.
///@{
template <class Request, class Self>
[[nodiscard]] auto operation_handler(Self* self) {
  return [self](Request& request) {
    return take_operation(self, request, {});
  };
}
template <class Request, class Self>
[[nodiscard]] auto operation_handler_with_options(Self* self) {
  return [self](Request& request, const request_options& options) {
    return take_operation(self, request, options);
  };
}
///@}

/// Makes `self` the owner of an executor. The planner makes the library objects of `prepared`.
template <class Self>
void serve(Self* self, std::unique_ptr<executor> made,
           const std::vector<const operation_row*>& prepared) {
  auto& on = *(state_of(self).on = std::move(made));
  if constexpr (detached_actors_have_own_threads) {
    on.lane().runtime().device().prepare_own_thread();
  }
  on.on_wake([owner = self->address()] { post_wake(owner); });
  on.on_more([self] { return has_message(self); });
  for (const auto* row : prepared) on.prepare(*row);
}

/// Drops the waiting requests of a client that has ended.
template <class Self>
void sender_ended(Self* self, const caf::down_msg& down) {
  if (state_of(self).watched.erase(down.source.id()) == 0) return;
  state_of(self).on->sender_ended({down.source.id()});
}

/// The handlers of an `operation_actor<Requests...>`, followed by others.
template <class... Requests>
struct operation_handlers {
  template <class Self, class... More>
  static auto make(Self* self, More... more) -> typename Self::behavior_type {
    return {operation_handler<Requests>(self)...,
            operation_handler_with_options<Requests>(self)...,
            [self](bulk& request) { return take_bulk(self, request, {}); },
            [self](bulk& request, const request_options& options) {
              return take_bulk(self, request, options);
            },
            [self](const cancel_request& request) {
              state_of(self).on->cancel(sender_of(self), request.id);
            },
            [self](get_queue_status) { return state_of(self).on->status(); },
            [self](wake) {
              state_of(self).on->work();
              linger(self);
            },
            std::move(more)...};
  }
};

/// Makes the executor of an actor before the actor is spawned, so that a failure is an error of the
/// spawning function.
[[nodiscard]] inline std::shared_ptr<std::unique_ptr<executor>> made_executor(
    std::shared_ptr<device_service> service, std::shared_ptr<kernel_trace> trace) {
  return std::make_shared<std::unique_ptr<executor>>(
      std::make_unique<executor>(std::move(service), std::move(trace)));
}

}  // namespace detail

/// Starts an `operation_actor<Requests...>` called `name` on a thread of its own, with a lane of
/// its own on `service` and the default `executor_options`. The planner makes the library objects
/// of `prepared` before a request needs them: `{&row_of(operation_type<saxpy>{})}`. `name` must
/// outlive the actor.
///
///     const auto own = spawn_operations<saxpy>(system, "example.saxpy", device.shared_service());
///
/// A request is an operation, or a type with an overload of `to_operation` in its own namespace,
/// which turns it into one. `request_reply` states its answer.
///
/// The actor ends when its last handle is dropped, or when it receives an exit message with a
/// reason other than `exit_reason::normal`. The end of a `scoped_device` does not end it. Drop all
/// handles before the actor system ends: with CAF 0.17, its destructor does not return while one
/// exists.
/// @throws error as `executor`
template <class... Requests>
[[nodiscard]] operation_actor<Requests...> spawn_operations(
    caf::actor_system& system, const char* name, std::shared_ptr<device_service> service,
    std::shared_ptr<kernel_trace> trace = nullptr,
    std::vector<const operation_row*> prepared = {}) {
  using self_pointer =
      typename operation_actor<Requests...>::template stateful_pointer<detail::operation_state>;
  return system.spawn<detail::library_actor_options>(
      [made = detail::made_executor(std::move(service), std::move(trace)), name,
       rows = std::move(prepared)](self_pointer self) {
        state_of(self).name = name;
        detail::serve(self, std::move(*made), rows);
        on_down(self, [self](const caf::down_msg& down) { detail::sender_ended(self, down); });
        // CAF 1.x tells of the end of an actor before it destroys the state.
        on_exit(self, [self](caf::exit_msg& exit) {
          if (!exit.reason) return;
          state_of(self).on.reset();
          self->quit(std::move(exit.reason));
        });
        return detail::operation_handlers<Requests...>::make(self);
      });
}

}  // namespace sluice
