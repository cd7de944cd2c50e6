// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/spin_for_message.hpp>
#include <sluice/export.hpp>
#include <sluice/runtime/error.hpp>

#include <chrono>
#include <exception>
#include <optional>
#include <ratio>
#include <type_traits>
#include <utility>

namespace sluice {
namespace detail {

/// Answers the request `id` of `client` with `shutting_down` if `target` ends before the notice is
/// destroyed, or has ended.
class SLUICE_EXPORT end_notice {
 public:
  end_notice(caf::strong_actor_ptr target, const caf::strong_actor_ptr& client, caf::message_id id);
  end_notice(const end_notice&) = delete;
  end_notice& operator=(const end_notice&) = delete;
  ~end_notice();

 private:
  caf::strong_actor_ptr target_;
};

/// An error answer as an error of sluice.
[[nodiscard]] SLUICE_EXPORT error asked_error(const caf::actor_system& system, const caf::error& e);

/// Nothing for a limit of more than a hundred years.
template <class Rep, class Period>
[[nodiscard]] constexpr std::optional<std::chrono::nanoseconds> time_limit(
    std::chrono::duration<Rep, Period> limit) {
  using days = std::chrono::duration<double, std::ratio<86400>>;
  if (!(days(limit) <= days(36500))) return std::nullopt;
  if (days(limit) <= days(0)) return std::chrono::nanoseconds(0);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(limit);
}

/// Separate from `ask`, so that the compiler names the message before the long type of the actor.
template <bool Declared, class... Message>
struct declaration_check {
  static_assert(Declared,
                "ask: no message can hold this type; declare it with SLUICE_MESSAGES, behind the "
                "type and outside of all namespaces");
};
template <bool Taken, class... Message>
struct message_check {
  static_assert(Taken, "ask: the actor does not take this message");
};
template <bool Answered, class Reply, class... Message>
struct reply_check {
  static_assert(Answered, "ask: the actor answers this message with a reply of another type");
};

/// Whether `ask` can be compiled. If not, the compiler has said why.
template <class Reply, class Handle, class... Message>
[[nodiscard]] constexpr bool check_ask() {
  constexpr bool declared = (is_message_type<Message> && ...);
  (void)sizeof(declaration_check<declared, Message...>);
  if constexpr (declared) {
    constexpr bool taken = takes_message<Handle, Message...>;
    (void)sizeof(message_check<taken, Message...>);
    if constexpr (taken) {
      constexpr bool answered = answers_message<Handle, Reply, Message...>;
      (void)sizeof(reply_check<answered, Reply, Message...>);
      return answered;
    }
  }
  return false;
}

template <class Reply, class Handle, class... Message>
Reply ask_within(caf::actor_system& system, const Handle& target,
                 std::optional<std::chrono::nanoseconds> limit, Message&&... message) {
  if (!target) throw error(errc::shutting_down, "ask: the handle of the actor is empty");
  if (limit && limit->count() == 0) {
    throw error(errc::deadline_exceeded, "ask: the time limit is not positive");
  }
  caf::scoped_actor self{system};
  auto sent = send_blocking_request(self, target, limit, std::forward<Message>(message)...);
  const end_notice notice(caf::actor_cast<caf::strong_actor_ptr>(target),
                          caf::actor_cast<caf::strong_actor_ptr>(self), sent.id);
  // With CAF 1.x the time limit begins below.
  if (!limit || CAF_MAJOR_VERSION < 1) spin_for_message(self.ptr());
  std::optional<Reply> answer;
  std::optional<error> failure;
  std::move(sent.response)
      .receive([&](Reply& reply) { answer.emplace(std::move(reply)); },
               [&](caf::error& e) { failure = asked_error(system, e); });
  if (failure) throw *failure;
  return std::move(*answer);
}

}  // namespace detail

/// Sends a message to `target`, waits for the answer and returns it.
///
///     const auto c = ask<tensor>(system, blas, gemm{.a = a, .b = b});
///
/// The calling thread spins for 50 µs before it sleeps, or for 10 ms while a device service with
/// `wait_policy::latency` exists. It is meant for tests, tools and `main` functions. Actors use
/// `request(self, ...).then(...)` instead. A message that the actor does not take, or answers with
/// another type than `Reply`, does not compile. Any thread may call it.
/// @throws error the answer, if it is an error of sluice
/// @throws error `shutting_down` if `target` is an empty handle, or ends before it has answered;
/// the request may have run
/// @throws error `library_failure` with CAF's text for any other error of CAF
template <class Reply, class Handle, class... Message>
Reply ask(caf::actor_system& system, const Handle& target, Message... message) {
  if constexpr (detail::check_ask<Reply, Handle, Message...>()) {
    return detail::ask_within<Reply>(system, target, std::nullopt, std::move(message)...);
  } else {
    std::terminate();  // not compiled
  }
}

/// The same with a time limit.
///
///     const auto status = ask<queue_status>(system, blas, 100ms, get_queue_status{});
///
/// The request is not cancelled when the limit passes. With a limit of zero or less nothing is
/// sent.
/// @throws error as without a limit
/// @throws error `deadline_exceeded` if `limit` passes before the answer
template <class Reply, class Handle, class Rep, class Period, class... Message>
Reply ask(caf::actor_system& system, const Handle& target, std::chrono::duration<Rep, Period> limit,
          Message... message) {
  if constexpr (detail::check_ask<Reply, Handle, Message...>()) {
    return detail::ask_within<Reply>(system, target, detail::time_limit(limit),
                                     std::move(message)...);
  } else {
    std::terminate();  // not compiled
  }
}

}  // namespace sluice
