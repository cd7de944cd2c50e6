// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>

#include <atomic>
#include <memory>
#include <type_traits>
#include <utility>

namespace sluice {

/// When a request is answered.
enum class reply_on : std::uint8_t {
  finished,  ///< when the device has finished
  enqueued,  ///< when the launch is published; further requests may use the references at once and
             ///< wait on the device; if the launch fails later, they fail with `upstream_failed`
};

/// The right to answer one request, exactly once. Thread-safe.
///
///     std::promise<int> answer;
///     const auto token = reply_token<int>::from(
///         [&](int value) { answer.set_value(value); },
///         [&](const error& why) { answer.set_exception(std::make_exception_ptr(why)); });
///     token.succeed(42);
///
/// Copies share the right: the first answer counts, and later ones are dropped. If the last copy is
/// destroyed without an answer, the request is answered with `cancelled`.
template <class T>
class reply_token {
 public:
  /// The destination of an answer.
  ///
  /// Either `succeed` or `fail` is called, once, on any thread. Both must not throw and must not
  /// block.
  class receiver {
   public:
    receiver() = default;
    receiver(const receiver&) = delete;
    receiver& operator=(const receiver&) = delete;
    virtual ~receiver() = default;
    /// Delivers the result.
    virtual void succeed(T value) noexcept = 0;
    /// Delivers the error.
    virtual void fail(const error& why) noexcept = 0;
  };

  reply_token() noexcept = default;
  /// A token that passes its answer to a new `Receiver(arguments...)`.
  /// @throws std::bad_alloc if there is no memory
  template <class Receiver, class... Arguments>
  [[nodiscard]] static reply_token make(Arguments&&... arguments) {
    reply_token token;
    token.state_ = std::make_shared<typed_state<Receiver>>(std::forward<Arguments>(arguments)...);
    return token;
  }
  /// A token that calls `succeeded(T)` or `failed(const error&)`. Neither function may throw or
  /// block.
  /// @throws std::bad_alloc if there is no memory
  template <class Succeeded, class Failed>
  [[nodiscard]] static reply_token from(Succeeded succeeded, Failed failed) {
    class calling final : public receiver {
     public:
      calling(Succeeded s, Failed f) : succeeded_(std::move(s)), failed_(std::move(f)) {}
      void succeed(T value) noexcept override { succeeded_(std::move(value)); }
      void fail(const error& why) noexcept override { failed_(why); }

     private:
      Succeeded succeeded_;
      Failed failed_;
    };
    return make<calling>(std::move(succeeded), std::move(failed));
  }

  /// Whether the token belongs to a request, answered or not.
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  /// Whether the request has been answered. True for an empty token.
  [[nodiscard]] bool answered() const noexcept {
    return !state_ || state_->answered.load(std::memory_order_acquire);
  }

  /// Answers the request, unless it has been answered. Returns whether this call answered it.
  ///@{
  bool succeed(T value) const noexcept {
    if (!take()) return false;
    state_->to().succeed(std::move(value));
    return true;
  }
  bool fail(const error& why) const noexcept {
    if (!take()) return false;
    state_->to().fail(why);
    return true;
  }
  ///@}

 private:
  struct state {
    state() = default;
    state(const state&) = delete;
    state& operator=(const state&) = delete;
    virtual ~state() = default;
    virtual receiver& to() noexcept = 0;
    std::atomic<bool> answered{false};
  };
  template <class Receiver>
  struct typed_state final : state {
    template <class... Arguments>
    explicit typed_state(Arguments&&... arguments)
        : target(std::forward<Arguments>(arguments)...) {}
    ~typed_state() override {
      if (!this->answered.exchange(true, std::memory_order_acq_rel)) {
        target.fail(error(errc::cancelled, "the request was dropped before it was answered"));
      }
    }
    receiver& to() noexcept override { return target; }
    Receiver target;
  };

  [[nodiscard]] bool take() const noexcept {
    return state_ && !state_->answered.exchange(true, std::memory_order_acq_rel);
  }

  std::shared_ptr<state> state_;
};

}  // namespace sluice
