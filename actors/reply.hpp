// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/envelope/reply_token.hpp>

#include <optional>
#include <utility>

namespace sluice {
namespace detail {

/// Where the answer to one request goes. Holds nothing of the actor that answers: a reply on its
/// way must not keep that actor's state (library handles) alive and destroy it on the completion
/// thread.
class reply_address {
 public:
  explicit reply_address(const caf::response_promise& promise);
  [[nodiscard]] bool is_remote() const noexcept;
  void send(caf::message content) noexcept;
  void send_error(const error& why) noexcept;

 private:
  caf::strong_actor_ptr source_;
  caf::response_promise::forwarding_stack stages_;
  caf::message_id id_;
};

/// Holds the request until it is answered, and destroys it before the answer is sent: a client that
/// has the answer shares its memory with nobody.
template <class T, class Request>
class actor_receiver final : public reply_token<T>::receiver {
 public:
  actor_receiver(const caf::response_promise& promise, Request&& request, Request*& held)
      : address_(promise), request_(std::move(request)) {
    held = &*request_;
  }

  void succeed(T value) noexcept override {
    request_.reset();
    if (local_message<T>::value && address_.is_remote()) {
      fail(error(errc::unsupported, "references to device memory are local to their process"));
      return;
    }
    try {
      address_.send(caf::make_message(std::move(value)));
    } catch (...) {
      address_.send_error(current_error());
    }
  }
  void fail(const error& why) noexcept override {
    request_.reset();
    address_.send_error(why);
  }

 private:
  reply_address address_;
  std::optional<Request> request_;
};

}  // namespace detail

/// A request taken over by the envelope: the handler returns `promise`, the answer goes through
/// `token`.
template <class T, class Request>
struct taken_request {
  caf::typed_response_promise<T> promise;
  reply_token<T> token;
  Request* request;  ///< exists until `token` has been used to answer
};

/// Takes the current request of `self`. Only `self` may call this, inside a handler.
template <class T, class Self, class Request>
[[nodiscard]] taken_request<T, Request> take_request(Self* self, Request request) {
  auto promise = self->template make_response_promise<caf::typed_response_promise<T>>();
  Request* held = nullptr;
  auto token = reply_token<T>::template make<detail::actor_receiver<T, Request>>(
      static_cast<caf::response_promise&>(promise), std::move(request), held);
  return {std::move(promise), std::move(token), held};
}

/// Runs `work`; an exception becomes the answer. No exception leaves a handler: it would end the
/// actor.
template <class T, class Work>
void answer_failures(const reply_token<T>& token, Work&& work) noexcept {
  try {
    work();
  } catch (...) {
    token.fail(current_error());
  }
}

}  // namespace sluice
