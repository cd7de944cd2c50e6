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

namespace detail {
/// The answer to one request, without the type of its result.
class reply_state {
 public:
  reply_state() = default;
  reply_state(const reply_state&) = delete;
  reply_state& operator=(const reply_state&) = delete;
  virtual ~reply_state() = default;
  [[nodiscard]] bool answered() const noexcept { return answered_.load(std::memory_order_acquire); }
  /// Takes the right to answer. Returns whether nobody had it.
  [[nodiscard]] bool take() noexcept {
    return !answered_.exchange(true, std::memory_order_acq_rel);
  }
  virtual void fail(const error& why) noexcept = 0;

 private:
  std::atomic<bool> answered_{false};
};
}  // namespace detail

/// The right of a `reply_token` to answer with an error, whatever the type of the result is.
/// Thread-safe.
class failure_token {
 public:
  failure_token() noexcept = default;
  /// The same right as the `reply_token` with this state.
  explicit failure_token(std::shared_ptr<detail::reply_state> state) noexcept
      : state_(std::move(state)) {}
  /// Whether the request has been answered. True for an empty token.
  [[nodiscard]] bool answered() const noexcept { return !state_ || state_->answered(); }
  /// Answers the request, unless it has been answered. Returns whether this call answered it.
  bool fail(const error& why) const noexcept {
    if (!state_ || !state_->take()) return false;
    state_->fail(why);
    return true;
  }

 private:
  std::shared_ptr<detail::reply_state> state_;
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
  [[nodiscard]] bool answered() const noexcept { return !state_ || state_->answered(); }
  /// The right to answer with an error.
  [[nodiscard]] failure_token failures() const noexcept { return failure_token(state_); }

  /// Answers the request, unless it has been answered. Returns whether this call answered it.
  ///@{
  bool succeed(T value) const noexcept {
    if (!state_ || !state_->take()) return false;
    state_->succeed(std::move(value));
    return true;
  }
  bool fail(const error& why) const noexcept { return failures().fail(why); }
  ///@}

 private:
  class state : public detail::reply_state {
   public:
    virtual void succeed(T value) noexcept = 0;
  };
  template <class Receiver>
  class typed_state final : public state {
   public:
    template <class... Arguments>
    explicit typed_state(Arguments&&... arguments)
        : target_(std::forward<Arguments>(arguments)...) {}
    ~typed_state() override {
      if (this->take()) {
        target_.fail(error(errc::cancelled, "the request was dropped before it was answered"));
      }
    }
    void succeed(T value) noexcept override { target_.succeed(std::move(value)); }
    void fail(const error& why) noexcept override { target_.fail(why); }

   private:
    Receiver target_;
  };

  std::shared_ptr<state> state_;
};

}  // namespace sluice
