// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The one door to CAF. All that differs between CAF 0.17, for which this is written, and CAF 1.x
/// is to stay in here.

#include <sluice/export.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <caf/all.hpp>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace sluice {

/// The category under which errors of sluice travel as `caf::error`.
inline constexpr auto error_category = caf::atom("sluice");

/// Tells an actor system how to print errors of sluice. Call it on the configuration before the
/// system is made.
SLUICE_EXPORT void configure(caf::actor_system_config& config);

/// The error as an actor's answer: category "sluice", the code, the text and the raw library
/// status.
[[nodiscard]] SLUICE_EXPORT caf::error to_caf_error(const error& e);
/// The error of sluice inside an actor's answer; nothing when it is of another category (CAF's own,
/// for example).
[[nodiscard]] SLUICE_EXPORT std::optional<error> from_caf_error(const caf::error& e);
/// Lets `caf::error` be made from, and compared with, a code.
[[nodiscard]] SLUICE_EXPORT caf::error make_error(errc code);
/// The error in words, also one of CAF's own.
[[nodiscard]] SLUICE_EXPORT std::string describe(const caf::actor_system& system,
                                                 const caf::error& e);

/// Errors that could not be sent, because the message was no request, since the process began. They
/// are logged.
[[nodiscard]] SLUICE_EXPORT std::uint64_t unsent_errors() noexcept;

/// Whether a detached actor has a thread of its own, which ends with it. CAF 0.18 and later lend
/// threads, also to actors of users.
inline constexpr bool detached_actors_have_own_threads = CAF_VERSION < 1800;

/// Requests and replies that hold references stay inside the process; CAF is told that they need no
/// serialisation, and a reply to a remote requester is turned into `unsupported`.
template <class T>
struct local_message : std::false_type {};
template <class T>
struct local_message<gpu_ref<T>> : std::true_type {};

namespace detail {

using request_timeout = caf::duration;
using actor_context = caf::execution_unit;

[[nodiscard]] inline bool is_exit_reason(const caf::error& e) noexcept {
  return e && e.category() == caf::atom("exit");
}

/// The types that an actor answers a message with. `valid` is false if it does not take the
/// message.
template <class Handle, class... Message>
using message_response = caf::response_type<caf::signatures_of_t<Handle>,
                                            caf::detail::implicit_conversions_t<Message>...>;

template <class Handle, class... Message>
inline constexpr bool takes_message = message_response<Handle, Message...>::valid;

template <class Handle, class Reply, class... Message>
inline constexpr bool answers_message =
    std::is_same_v<caf::signatures_of_t<Handle>, caf::none_t> ||
    std::is_same_v<typename message_response<Handle, Message...>::type,
                   caf::detail::type_list<Reply>>;

}  // namespace detail
}  // namespace sluice

namespace caf {
template <class T>
struct allowed_unsafe_message_type<sluice::gpu_ref<T>> : std::true_type {};
}  // namespace caf
