// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The door to CAF. The differences between CAF 0.17 and CAF 1.x are here and in actors/caf.cpp.

#include <sluice/export.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#if CAF_MAJOR_VERSION >= 1
#include <caf/init_global_meta_objects.hpp>
#endif

/// @cond
// SLUICE_DETAIL_FOR_EACH(f, block, a, b...) expands to f(block, a) f(block, b)..., for up to 64.
#define SLUICE_DETAIL_PARENS ()
#define SLUICE_DETAIL_EXPAND(...) \
  SLUICE_DETAIL_EXPAND3(          \
      SLUICE_DETAIL_EXPAND3(SLUICE_DETAIL_EXPAND3(SLUICE_DETAIL_EXPAND3(__VA_ARGS__))))
#define SLUICE_DETAIL_EXPAND3(...) \
  SLUICE_DETAIL_EXPAND2(           \
      SLUICE_DETAIL_EXPAND2(SLUICE_DETAIL_EXPAND2(SLUICE_DETAIL_EXPAND2(__VA_ARGS__))))
#define SLUICE_DETAIL_EXPAND2(...) \
  SLUICE_DETAIL_EXPAND1(           \
      SLUICE_DETAIL_EXPAND1(SLUICE_DETAIL_EXPAND1(SLUICE_DETAIL_EXPAND1(__VA_ARGS__))))
#define SLUICE_DETAIL_EXPAND1(...) __VA_ARGS__
#define SLUICE_DETAIL_FOR_EACH(f, block, ...) \
  __VA_OPT__(SLUICE_DETAIL_EXPAND(SLUICE_DETAIL_NEXT(f, block, __VA_ARGS__)))
#define SLUICE_DETAIL_NEXT(f, block, type, ...) \
  f(block, type) __VA_OPT__(SLUICE_DETAIL_AGAIN SLUICE_DETAIL_PARENS(f, block, __VA_ARGS__))
#define SLUICE_DETAIL_AGAIN() SLUICE_DETAIL_NEXT
/// @endcond

/// Declares types as messages that stay inside the process. Use it once for each type, outside of
/// all namespaces, before an actor takes the type.
///
///     SLUICE_MESSAGES(my_service, 200, my::request, my::reply)
///
/// `block` is a name that no other block of the program has. The types have default constructors,
/// and names without commas; a block has at most 64. CAF 1.x numbers the types from `first_id`, and
/// `configure` registers them: n types have the ids from `first_id` to `first_id` + n - 1. The
/// blocks of a program do not overlap. The ids 0 to 199 belong to CAF, and 1000 to 1999 to sluice
/// and its examples: each library has a hundred. CAF 0.17 ignores both arguments.
#if CAF_MAJOR_VERSION >= 1
#define SLUICE_MESSAGES(block, first_id, ...)                                  \
  CAF_BEGIN_TYPE_ID_BLOCK(block, first_id)                                     \
  SLUICE_DETAIL_FOR_EACH(SLUICE_DETAIL_MESSAGE, block, __VA_ARGS__)            \
  CAF_END_TYPE_ID_BLOCK(block)                                                 \
  namespace sluice::detail {                                                   \
  [[maybe_unused]] inline const bool block##_is_registered =                   \
      register_messages(&caf::init_global_meta_objects<caf::id_block::block>); \
  }
#define SLUICE_DETAIL_MESSAGE(block, type) \
  CAF_ADD_TYPE_ID(block, (type))           \
  CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type)
#else
#define SLUICE_MESSAGES(block, first_id, ...) \
  SLUICE_DETAIL_FOR_EACH(SLUICE_DETAIL_MESSAGE, block, __VA_ARGS__)
#define SLUICE_DETAIL_MESSAGE(block, type)                               \
  static_assert(std::is_default_constructible_v<type>,                   \
                "SLUICE_MESSAGES: a message has a default constructor"); \
  CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type)
#endif

namespace sluice::detail {
/// Makes `configure` call `init`.
SLUICE_EXPORT bool register_messages(void (*init)()) noexcept;
}  // namespace sluice::detail

/// @cond
#if CAF_MAJOR_VERSION >= 1
template <>
struct caf::is_error_code_enum<sluice::errc> : std::true_type {};
SLUICE_MESSAGES(sluice_references, 1000, sluice::errc, sluice::gpu_ref<bool>,
                sluice::gpu_ref<std::uint8_t>, sluice::gpu_ref<std::int8_t>,
                sluice::gpu_ref<std::uint16_t>, sluice::gpu_ref<std::int16_t>,
                sluice::gpu_ref<std::int32_t>, sluice::gpu_ref<std::uint32_t>,
                sluice::gpu_ref<std::int64_t>, sluice::gpu_ref<std::uint64_t>,
                sluice::gpu_ref<sluice::e4m3>, sluice::gpu_ref<sluice::e5m2>,
                sluice::gpu_ref<sluice::f16>, sluice::gpu_ref<sluice::bf16>, sluice::gpu_ref<float>,
                sluice::gpu_ref<double>, sluice::gpu_ref<std::complex<float>>,
                sluice::gpu_ref<std::complex<double>>)
#else
template <class T>
struct caf::allowed_unsafe_message_type<sluice::gpu_ref<T>> : std::true_type {};
#endif
/// @endcond

namespace sluice {

/// The category under which errors of sluice travel as `caf::error`.
#if CAF_MAJOR_VERSION >= 1
inline constexpr auto error_category = caf::type_id_v<errc>;
#else
inline constexpr auto error_category = caf::atom("sluice");
#endif

/// Prepares an actor system for sluice: its errors can be printed, and its messages are known. Call
/// it on the configuration before the first actor system is made.
SLUICE_EXPORT void configure(caf::actor_system_config& config);

/// The error as an actor's answer: category `error_category`, the code, the text and the raw
/// library status.
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
inline constexpr bool detached_actors_have_own_threads = CAF_MAJOR_VERSION < 1;

/// Requests and replies that hold references stay inside the process; CAF is told that they need no
/// serialisation, and a reply to a remote requester is turned into `unsupported`.
template <class T>
struct local_message : std::false_type {};
template <class T>
struct local_message<gpu_ref<T>> : std::true_type {};

namespace detail {

template <class Signature>
struct message_signature;

#if CAF_MAJOR_VERSION >= 1
template <class Reply, class... Message>
struct message_signature<Reply(Message...)> {
  using type = caf::result<Reply>(Message...);
};

using actor_context = caf::scheduler;
using enqueue_result = bool;
using message_content = caf::message;
/// Identifies the type of an element of a message.
using element_type_id = caf::type_id_t;
template <class... T>
using type_list = caf::type_list<T...>;
#else
template <class Reply, class... Message>
struct message_signature<Reply(Message...)> {
  using type = typename caf::replies_to<Message...>::template with<Reply>;
};
template <class... Message>
struct message_signature<void(Message...)> {
  using type = caf::reacts_to<Message...>;
};

using actor_context = caf::execution_unit;
using enqueue_result = void;
using message_content = caf::type_erased_tuple;
/// Identifies the type of an element of a message.
using element_type_id = std::type_index;
template <class... T>
using type_list = caf::detail::type_list<T...>;
#endif

/// Actors that a request visits on its way back. CAF 1.x has none.
using forwarding_stack = std::vector<caf::strong_actor_ptr>;
[[nodiscard]] inline forwarding_stack take_stages([[maybe_unused]] caf::mailbox_element& request) {
#if CAF_MAJOR_VERSION >= 1
  return {};
#else
  return std::move(request.stages);
#endif
}

/// The identity of a type that messages hold.
template <class T>
[[nodiscard]] element_type_id id_of_element_type() noexcept {
#if CAF_MAJOR_VERSION >= 1
  return caf::type_id_v<T>;
#else
  return typeid(T);
#endif
}
/// The identity of the type of an element. CAF 0.17 has none for numbers and its own types.
[[nodiscard]] inline element_type_id id_of_element(const message_content& content,
                                                   std::size_t index) noexcept {
#if CAF_MAJOR_VERSION >= 1
  return content.type_at(index);
#else
  const auto* const type = content.type(index).second;
  return type != nullptr ? *type : typeid(void);
#endif
}
/// Calls `use(content)` with the content of a message that may be changed, because no other message
/// shares it.
/// @throws std::bad_alloc if there is no memory for a copy
template <class Use>
void use_unshared(message_content& content, const Use& use) {
#if CAF_MAJOR_VERSION < 1
  if (content.shared()) {
    auto copy = caf::message::copy(content);
    return use(copy.content());
  }
#endif
  use(content);
}

/// The content of a message that has been taken out of a mailbox.
[[nodiscard]] inline caf::message take_content(caf::mailbox_element& received) {
#if CAF_MAJOR_VERSION >= 1
  return std::move(received.payload);
#else
  return received.move_content_to_message();
#endif
}

[[nodiscard]] bool is_exit_reason(const caf::error& e) noexcept;

/// Whether a message is one that CAF sends to actors itself.
[[nodiscard]] inline bool is_system_message(const message_content& content) noexcept {
  if (content.match_elements<caf::exit_msg>() || content.match_elements<caf::down_msg>() ||
      content.match_elements<caf::error>()) {
    return true;
  }
#if CAF_MAJOR_VERSION >= 1
  return content.match_elements<caf::node_down_msg>() || content.match_elements<caf::action>() ||
         content.match_elements<caf::timeout_msg>() ||
         content.match_elements<caf::sys_atom, caf::get_atom, std::string>();
#else
  return content.match_elements<caf::timeout_msg>() ||
         content.match_elements<caf::sys_atom, caf::get_atom, std::string>();
#endif
}

/// Puts `content` into the mailbox of `target`, in CAF 0.17 with one allocation. `stages` are those
/// that the answer visits afterwards. Any thread may call it.
template <class T>
void enqueue(const caf::strong_actor_ptr& target, caf::strong_actor_ptr sender, caf::message_id id,
             T content, [[maybe_unused]] forwarding_stack stages = {}) {
#if CAF_MAJOR_VERSION >= 1
  if constexpr (std::is_same_v<T, caf::message>) {
    target->enqueue(caf::make_mailbox_element(std::move(sender), id, std::move(content)), nullptr);
  } else {
    enqueue(target, std::move(sender), id, caf::make_message(std::move(content)));
  }
#else
  target->enqueue(
      caf::make_mailbox_element(std::move(sender), id, std::move(stages), std::move(content)),
      nullptr);
#endif
}

/// The types that an actor answers a message with. `valid` is false if it does not take the
/// message.
template <class Handle, class... Message>
using message_response = caf::response_type<typename Handle::signatures,
                                            caf::detail::implicit_conversions_t<Message>...>;

/// Whether messages can hold a `T`: it is declared as a message, or CAF can serialize it.
#if CAF_MAJOR_VERSION >= 1
template <class T>
inline constexpr bool is_message_type = caf::has_type_id_v<caf::detail::implicit_conversions_t<T>>;
#else
template <class T>
inline constexpr bool is_message_type =
    caf::is_serializable_or_whitelisted<caf::detail::implicit_conversions_t<T>>::value;
#endif

template <class Handle, class... Message>
inline constexpr bool takes_message = message_response<Handle, Message...>::valid;

template <class Handle, class Reply, class... Message>
inline constexpr bool answers_message =
    std::is_same_v<typename Handle::signatures, caf::none_t> ||
    std::is_same_v<typename message_response<Handle, Message...>::type, type_list<Reply>>;

/// Separate from the functions that send, so that the compiler names the message before the long
/// type of the actor.
template <bool Declared, class... Message>
struct declaration_check {
  static_assert(Declared,
                "no message can hold this type; declare it with SLUICE_MESSAGES, behind the type "
                "and outside of all namespaces");
};
template <bool Taken, class... Message>
struct message_check {
  static_assert(Taken, "the actor does not take this message");
};

/// Whether an actor takes a message. If not, the compiler has said why.
template <class Handle, class... Message>
[[nodiscard]] constexpr bool check_message() {
  constexpr bool declared = (is_message_type<Message> && ...);
  (void)sizeof(declaration_check<declared, Message...>);
  if constexpr (declared) {
    constexpr bool is_taken = takes_message<Handle, Message...>;
    (void)sizeof(message_check<is_taken, Message...>);
    return is_taken;
  }
  return false;
}

/// Whether a target takes a message, as far as its type tells. If not, the compiler has said why.
template <class Target, class... Message>
[[nodiscard]] constexpr bool check_sent() {
  if constexpr (requires { typename Target::signatures; }) {
    return check_message<Target, Message...>();
  }
  return true;
}

/// The result of a request that does not compile.
struct not_sent {
  // Handlers return it.
  // NOLINTBEGIN(google-explicit-constructor)
  template <class Reply>
  operator caf::delegated<Reply>() const {
    return {};
  }
  template <class Reply>
  operator caf::result<Reply>() const {
    return caf::delegated<Reply>();
  }
  // NOLINTEND(google-explicit-constructor)
  template <class... Handlers>
  void then(Handlers&&...) const {}
  template <class... Handlers>
  void await(Handlers&&...) const {}
  template <class... Handlers>
  void receive(Handlers&&...) const {}
};

}  // namespace detail

/// A message in the interface of a typed actor, with its reply.
///
///     using counter = caf::typed_actor<takes<int(add)>, takes<void(reset)>>;
template <class Signature>
using takes = typename detail::message_signature<Signature>::type;

/// The functions below stand for members of actors that CAF 0.17 and CAF 1.x name differently. Only
/// the actor `self` may call them, with a pointer to itself.
///@{

/// The state of a stateful actor.
template <class Self>
[[nodiscard]] auto& state_of(Self* self) {
#if CAF_MAJOR_VERSION >= 1
  return self->state();
#else
  return self->state;
#endif
}

/// Sends a request to `target`, a handle of an actor. The result has the members `then`, `await`
/// and `receive` of CAF. After `timeout` the error handler gets `caf::sec::request_timeout`, unless
/// it is `caf::infinite`.
template <class Self, class Handle, class Timeout, class... Message>
[[nodiscard]] auto request(Self&& self, const Handle& target, Timeout timeout,
                           Message&&... message) {
  if constexpr (detail::check_message<Handle, std::decay_t<Message>...>()) {
#if CAF_MAJOR_VERSION >= 1
    return self->mail(std::forward<Message>(message)...).request(target, timeout);
#else
    return self->request(target, timeout, std::forward<Message>(message)...);
#endif
  } else {
    return detail::not_sent();
  }
}

/// Lets `target` answer the current request of `self`, with the answer to `message`. The result is
/// the result of the handler.
template <class Self, class Handle, class... Message>
[[nodiscard]] auto delegate(Self* self, const Handle& target, Message&&... message) {
  if constexpr (detail::check_sent<Handle, std::decay_t<Message>...>()) {
#if CAF_MAJOR_VERSION >= 1
    return self->mail(std::forward<Message>(message)...).delegate(target);
#else
    return self->delegate(target, std::forward<Message>(message)...);
#endif
  } else {
    return detail::not_sent();
  }
}

/// Sends a message to `target` that is no request.
template <class Self, class Handle, class... Message>
void send(Self&& self, const Handle& target, Message&&... message) {
  if constexpr (detail::check_sent<Handle, std::decay_t<Message>...>()) {
#if CAF_MAJOR_VERSION >= 1
    self->mail(std::forward<Message>(message)...).send(target);
#else
    self->send(target, std::forward<Message>(message)...);
#endif
  }
}

/// Sends a message without a sender to `target`. Any thread may call it.
template <class Handle, class... Message>
void post(const Handle& target, Message&&... message) {
  if constexpr (detail::check_sent<Handle, std::decay_t<Message>...>()) {
#if CAF_MAJOR_VERSION >= 1
    caf::anon_mail(std::forward<Message>(message)...).send(target);
#else
    caf::anon_send(target, std::forward<Message>(message)...);
#endif
  }
}

/// Whether a message waits in the mailbox of `self`.
template <class Self>
[[nodiscard]] bool has_message(Self&& self) {
  return !self->mailbox().empty();
}

#if CAF_MAJOR_VERSION >= 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
/// Sends `self` a `caf::down_msg` when `whom` ends.
template <class Self, class Handle>
void monitor(Self&& self, const Handle& whom) {
  self->monitor(whom);
}

/// Undoes `monitor`. `whom` keeps some memory for `self` until then.
template <class Self>
void demonitor(Self* self, const caf::actor_addr& whom) {
  self->demonitor(whom);
}

/// Makes `handler` receive each `caf::down_msg` of `self`.
template <class Self, class Handler>
void on_down(Self* self, Handler handler) {
  self->set_down_handler(std::move(handler));
}

/// Makes `handler` receive each `caf::exit_msg` of `self`. The actor then ends only if the handler
/// calls `quit`.
template <class Self, class Handler>
void on_exit(Self* self, Handler handler) {
  self->set_exit_handler(std::move(handler));
}

namespace detail {
/// Makes `handler(content)` receive each message that no handler of `self` takes. It returns
/// whether it takes the message, and then sees to the answer.
template <class Self, class Handler>
void on_other_message(Self* self, Handler handler) {
#if CAF_MAJOR_VERSION >= 1
  using result = caf::skippable_result;
  self->set_default_handler([handler](caf::scheduled_actor*, caf::message& content) -> result {
    if (handler(content)) return caf::delegated<caf::message>();
    return caf::make_error(caf::sec::unexpected_message);
  });
#else
  using result = caf::result<caf::message>;
  self->set_default_handler([handler](caf::scheduled_actor*, caf::message_view& element) -> result {
    if (handler(element.content())) return caf::delegated<caf::message>();
    return caf::make_error(caf::sec::unexpected_message);
  });
#endif
}
}  // namespace detail
#if CAF_MAJOR_VERSION >= 1
#pragma GCC diagnostic pop
#endif
///@}

}  // namespace sluice
