// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/error.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace sluice {

/// When a request is answered.
enum class reply_on : std::uint8_t {
  finished,  ///< when the device has finished
  enqueued,  ///< when the launch is published; further requests may use the references at once and
             ///< wait on the device; if the launch fails later, they fail with `upstream_failed`
};

/// The reply of one launch.
class SLUICE_EXPORT launch_reply {
 public:
  launch_reply() = default;
  launch_reply(const launch_reply&) = delete;
  launch_reply& operator=(const launch_reply&) = delete;
  virtual ~launch_reply() = default;

  /// Answers the request. `failure` is the error of the launch, or nullptr. Called once.
  virtual void give(const error* failure) noexcept = 0;
};

namespace detail {
/// The answer to one request, without the type of its result. It holds the output of the launch
/// that gives the answer. A launch that fails may still write its output, which therefore stays
/// here until `drop_output`.
class reply_state : public launch_reply {
 public:
  [[nodiscard]] bool answered() const noexcept { return answered_.load(std::memory_order_acquire); }
  /// Takes the right to answer. Returns whether nobody had it.
  [[nodiscard]] bool take() noexcept {
    return !answered_.exchange(true, std::memory_order_acq_rel);
  }
  virtual void fail(const error& failure) noexcept = 0;
  /// Answers with a copy of the output, which stays here.
  virtual void give_early() noexcept = 0;
  /// Destroys the output.
  virtual void drop_output() noexcept = 0;

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
  bool fail(const error& failure) const noexcept {
    if (!state_ || !state_->take()) return false;
    state_->fail(failure);
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
    virtual void fail(const error& failure) noexcept = 0;
  };

  reply_token() noexcept = default;
  /// A token that passes its answer to a new `Receiver(arguments...)`.
  /// @throws std::bad_alloc if there is no memory
  template <class Receiver, class... Arguments>
  [[nodiscard]] static reply_token make(Arguments&&... arguments) {
    return allocate<Receiver>(std::allocator<Receiver>(), std::forward<Arguments>(arguments)...);
  }
  /// As `make`, in memory of `allocator`.
  template <class Receiver, class Allocator, class... Arguments>
  [[nodiscard]] static reply_token allocate(const Allocator& allocator, Arguments&&... arguments) {
    reply_token token;
    token.state_ = std::allocate_shared<typed_state<Receiver>>(
        allocator, std::forward<Arguments>(arguments)...);
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
      void fail(const error& failure) noexcept override { failed_(failure); }

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
  bool fail(const error& failure) const noexcept { return failures().fail(failure); }
  ///@}

  /// @cond for the envelope
  /// The reply of a launch with this output. Nothing is moved if it throws.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] std::shared_ptr<detail::reply_state> hold(T&& output) && {
    if (state_ && state_->hold(output)) return std::move(state_);
    // The token is empty, or it holds the output of another launch.
    const auto token = from([copy = *this](T value) { copy.succeed(std::move(value)); },
                            [copy = *this](const error& failure) { copy.fail(failure); });
    (void)token.state_->hold(output);
    return token.state_;
  }
  /// @endcond

 private:
  class state : public detail::reply_state {
   public:
    virtual void succeed(T value) noexcept = 0;
    /// Moves `output` here. Returns false if the output of another launch has been here.
    [[nodiscard]] bool hold(T& output) {
      if (held_.exchange(true, std::memory_order_relaxed)) return false;
      output_.emplace(std::move(output));
      // Tokens without a launch need no copies.
      give_copy_ = [](state& token_state) noexcept {
        try {
          T copy(*token_state.output_);
          if (token_state.take()) token_state.succeed(std::move(copy));
        } catch (...) {
          if (token_state.take()) token_state.fail(current_error());
        }
      };
      return true;
    }
    void give(const error* failure) noexcept override {
      if (failure != nullptr) {
        if (this->take()) this->fail(*failure);
        return;
      }
      auto result = std::move(*output_);
      output_.reset();
      if (this->take()) succeed(std::move(result));
    }
    void give_early() noexcept override { give_copy_(*this); }
    void drop_output() noexcept override { output_.reset(); }

   private:
    std::atomic<bool> held_{false};
    std::optional<T> output_;
    void (*give_copy_)(state&) noexcept = nullptr;
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
    void fail(const error& failure) noexcept override { target_.fail(failure); }

   private:
    Receiver target_;
  };

  std::shared_ptr<state> state_;
};

}  // namespace sluice
