// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
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

/// Sends `message` to `target`, waits for the answer and returns it.
/// @throws error as `ask` does
[[nodiscard]] SLUICE_EXPORT caf::message request_and_wait(
    caf::actor_system& system, const caf::strong_actor_ptr& target,
    std::optional<std::chrono::nanoseconds> limit, caf::message message);
/// @throws error `library_failure`: the answer has another type than the caller expects
[[noreturn]] SLUICE_EXPORT void throw_unexpected_answer(const caf::message& answer);

/// Nothing for a limit of more than a hundred years.
template <class Rep, class Period>
[[nodiscard]] constexpr std::optional<std::chrono::nanoseconds> time_limit(
    std::chrono::duration<Rep, Period> limit) {
  using days = std::chrono::duration<double, std::ratio<86400>>;
  if (!(days(limit) <= days(36500))) return std::nullopt;
  if (days(limit) <= days(0)) return std::chrono::nanoseconds(0);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(limit);
}

template <bool Answered, class Reply, class... Message>
struct reply_check {
  static_assert(
      Answered,
      "ask: the actor answers this message with a reply of another type: an operation with a "
      "tensor, or with tensors if it has several outputs; run with tensors; run_to_host with "
      "host_tensors; download with a host_tensor");
};

/// Whether `ask` can be compiled. If not, the compiler has said why.
template <class Reply, class Handle, class... Message>
[[nodiscard]] constexpr bool check_ask() {
  if constexpr (check_message<Handle, Message...>()) {
    constexpr bool answered = answers_message<Handle, Reply, Message...>;
    (void)sizeof(reply_check<answered, Reply, Message...>);
    return answered;
  }
  return false;
}

template <class Reply, class Handle, class... Message>
Reply ask_within(caf::actor_system& system, const Handle& target,
                 std::optional<std::chrono::nanoseconds> limit, Message&&... message) {
  auto answer = request_and_wait(system, caf::actor_cast<caf::strong_actor_ptr>(target), limit,
                                 caf::make_message(std::forward<Message>(message)...));
  if (!answer.template match_elements<Reply>()) throw_unexpected_answer(answer);
  return std::move(answer.template get_mutable_as<Reply>(0));
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
/// @throws error `library_failure` if an actor without a static type answers with another type
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
