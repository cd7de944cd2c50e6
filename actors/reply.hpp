#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/envelope/reply_token.hpp>

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

template <class T>
class actor_receiver final : public reply_token<T>::receiver {
 public:
  explicit actor_receiver(const caf::response_promise& promise) : address_(promise) {}

  void succeed(T value) noexcept override {
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
  void fail(const error& why) noexcept override { address_.send_error(why); }

 private:
  reply_address address_;
};

}  // namespace detail

/// A request taken over by the envelope: the handler returns `promise`, the answer goes through
/// `token`.
template <class T>
struct taken_request {
  caf::typed_response_promise<T> promise;
  reply_token<T> token;
};

/// Takes the current request of `self`. Only `self` may call this, inside a handler.
template <class T, class Self>
[[nodiscard]] taken_request<T> take_request(Self* self) {
  auto promise = self->template make_response_promise<caf::typed_response_promise<T>>();
  auto token = reply_token<T>::template make<detail::actor_receiver<T>>(
      static_cast<caf::response_promise&>(promise));
  return {std::move(promise), std::move(token)};
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
