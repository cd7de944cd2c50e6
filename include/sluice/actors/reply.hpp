// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/operation_actor.hpp>
#include <sluice/envelope/recycled_memory.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/operation_result.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensors.hpp>

#include <type_traits>
#include <utility>

namespace sluice {
namespace detail {

/// Where the answer to one request goes. Holds nothing of the actor that answers: a reply on its
/// way must not keep that actor's state (library handles) alive and destroy it on the completion
/// thread.
class SLUICE_EXPORT reply_address {
 public:
  reply_address(caf::strong_actor_ptr source, forwarding_stack stages, caf::message_id id);
  [[nodiscard]] bool is_remote() const noexcept;
  void send_error(const error& why) noexcept;
  template <class T>
  void send_value(T value) noexcept {
    if (local_message<T>::value && is_remote()) {
      return send_error(error(errc::unsupported, "tensors are local to their process"));
    }
    try {
      send(std::move(value));
    } catch (...) {
      send_error(current_error());
    }
  }
  /// Lets `target` answer the request, with its answer to `message`. Any thread may call it.
  /// Nothing has happened if it throws.
  /// @throws std::bad_alloc if there is no memory
  void pass_on(const caf::strong_actor_ptr& target, caf::message message) {
    enqueue(target, source_, id_, std::move(message), stages_);
    stages_.clear();
    source_.reset();
  }

 private:
  /// What response_promise::deliver does, but from any thread: without the answering actor's own
  /// context. Nothing is sent if it throws.
  template <class T>
  void send(T content) {
    if (!stages_.empty()) {
      const auto next = stages_.back();
      auto rest = stages_;
      rest.pop_back();
      enqueue(next, source_, id_, std::move(content), std::move(rest));
    } else if (source_) {
      enqueue(source_, nullptr, id_.response_id(), std::move(content));
    }
    stages_.clear();
    source_.reset();
  }

  caf::strong_actor_ptr source_;
  forwarding_stack stages_;
  caf::message_id id_;
};

template <class T>
class actor_receiver final : public reply_token<T>::receiver {
 public:
  explicit actor_receiver(reply_address address) : address_(std::move(address)) {}

  void succeed(T value) noexcept override { address_.send_value(std::move(value)); }
  void fail(const error& why) noexcept override { address_.send_error(why); }

 private:
  reply_address address_;
};

/// The operation of a request. Nothing of it stays behind in `request`.
template <class Request>
[[nodiscard]] auto take_operation_of(Request& request) {
  if constexpr (requires { to_operation(request); }) {
    auto source = std::move(request);
    return to_operation(std::move(source));
  } else {
    return std::move(request);
  }
}

/// What the executor answers an operation with.
template <class Operation>
struct executor_result {
  using type = operation_result<Operation>;
};
template <>
struct executor_result<run> {
  using type = tensors;
};
template <>
struct executor_result<run_to_host> {
  using type = host_tensors;
};
template <>
struct executor_result<prepare> {
  using type = prepared;
};
template <class Request>
using executor_result_t =
    typename executor_result<decltype(take_operation_of(std::declval<Request&>()))>::type;

/// Receives the result of an operation and answers the request that asked for it.
template <class Request>
class operation_receiver final : public reply_token<executor_result_t<Request>>::receiver {
 public:
  operation_receiver(reply_address address, Request& request)
      : address_(std::move(address)), reply_(request) {}

  void succeed(executor_result_t<Request> result) noexcept override {
    try {
      // Nothing of `result` stays here: the client that has its answer shares its memory with
      // nobody.
      auto answer = reply_(std::move(result));
      address_.send_value(std::move(answer));
    } catch (...) {
      address_.send_error(current_error());
    }
  }
  void fail(const error& why) noexcept override { address_.send_error(why); }

 private:
  reply_address address_;
  request_reply<Request> reply_;
};

/// A request that is answered through `token`: the handler returns `delegated`.
template <class Reply>
struct taken_request {
  caf::delegated<Reply> delegated;
  reply_token<Reply> token;
};

/// The token for the answer to `address`, made by `make(address)`. An exception becomes the answer,
/// and the token is empty.
template <class Result, class Make>
[[nodiscard]] reply_token<Result> make_token(reply_address address, const Make& make) noexcept {
  try {
    return make(address);
  } catch (...) {
    address.send_error(current_error());
    return {};
  }
}

/// Where the answer to the current request of `self` goes. The handler answers it no more.
template <class Self>
[[nodiscard]] reply_address take_address(Self* self) {
  auto& request = *self->current_mailbox_element();
  reply_address address(request.sender, take_stages(request), request.mid);
  request.mid.mark_as_answered();
  return address;
}

/// Takes the current request of `self` over. Only `self` may call this, inside a handler.
template <class T, class Self>
[[nodiscard]] taken_request<T> take_promise(Self* self) {
  return {{}, make_token<T>(take_address(self), [](const reply_address& address) {
            return reply_token<T>::template make<actor_receiver<T>>(address);
          })};
}

/// Runs `work`, unless the token is empty; an exception becomes the answer. No exception leaves a
/// handler: it would end the actor.
template <class T, class Work>
void answer_failures(const reply_token<T>& token, const Work& work) noexcept {
  if (!token) return;
  if (const auto failure = failure_of(work)) token.fail(*failure);
}

}  // namespace detail
}  // namespace sluice
