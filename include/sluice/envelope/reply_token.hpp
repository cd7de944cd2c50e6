// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>

#include <atomic>
#include <memory>
#include <type_traits>
#include <utility>

namespace sluice {

/// When a request wants its answer.
enum class reply_on : std::uint8_t {
  finished,  ///< when the device has finished
  enqueued,  ///< when the launch is published: the references may be used in further requests at
             ///< once, which wait on the device; if the launch fails later, whoever uses them gets
             ///< `upstream_failed`
};

/// The right to answer one request, exactly once. Copies share the right: the first answer counts,
/// later ones are dropped, and when the last copy goes unanswered, the request is answered with
/// `cancelled`. Thread-safe.
template <class T>
class reply_token {
 public:
  /// Carries an answer to where it is awaited. Called once, from any thread; must not throw and
  /// must not block.
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
  /// A token that hands its answer to `Receiver(arguments...)`.
  template <class Receiver, class... Arguments>
  [[nodiscard]] static reply_token make(Arguments&&... arguments) {
    reply_token token;
    token.state_ = std::make_shared<typed_state<Receiver>>(std::forward<Arguments>(arguments)...);
    return token;
  }
  /// A token that calls `succeeded(T)` or `failed(const error&)`.
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

  /// Answers, unless that has been done. Returns whether this was the answer.
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
