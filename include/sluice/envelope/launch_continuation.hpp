// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/lane.hpp>
#include <sluice/envelope/launch_timing.hpp>
#include <sluice/envelope/operands.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace sluice {

struct launch_context;

namespace detail {

/// The continuation of a launch: its owners, its trace, and in the derived class its reply.
class SLUICE_EXPORT launch_continuation : public continuation {
 public:
  launch_continuation(operands used, std::shared_ptr<kernel_trace> trace, const kernel_info& info,
                      std::shared_ptr<lane_load> load)
      : used_(std::move(used)), trace_(std::move(trace)), info_(info), load_(std::move(load)) {}

  void complete(const error* failure, const std::function<void()>& release) noexcept final;
  /// Sets the number of device commands. Call it before the launch.
  void count_commands(std::size_t commands) noexcept { commands_ = commands; }

  /// Attaches timestamps to the launch. `names` keep the strings of its `kernel_info` alive.
  void time(launch_timestamps& by, std::shared_ptr<const void> names) noexcept {
    timing_ = by.prepare(trace_, info_, std::move(names));
  }

  /// Answers the request; `failure` is nullptr after success. Has no effect if the request has been
  /// answered.
  virtual void answer(const error* failure) noexcept = 0;
  /// Answers with a copy of the output and keeps the original.
  virtual void answer_enqueued() noexcept = 0;

 protected:
  /// The reply, moved out of the continuation, which may be destroyed before `give` is called.
  ///
  /// A reply that carries the output takes it along. Otherwise the output stays with the owners.
  class detached_answer {
   public:
    detached_answer() = default;
    detached_answer(const detached_answer&) = delete;
    detached_answer& operator=(const detached_answer&) = delete;
    virtual ~detached_answer() = default;
    virtual void give(const error* failure) noexcept = 0;
  };
  virtual void detach(const error* failure, void (*then)(detached_answer&, void*),
                      void* context) noexcept = 0;

 private:
  friend class launch;
  operands used_;
  std::shared_ptr<kernel_trace> trace_;
  kernel_info info_;
  launch_timing timing_;
  std::shared_ptr<lane_load> load_;
  std::size_t commands_ = 1;
  std::chrono::steady_clock::time_point begun_{};
};

template <class Reply>
class typed_continuation final : public launch_continuation {
 public:
  typed_continuation(operands used, std::shared_ptr<kernel_trace> trace, const kernel_info& info,
                     std::shared_ptr<lane_load> load, reply_token<Reply> token, Reply output)
      : launch_continuation(std::move(used), std::move(trace), info, std::move(load)),
        token_(std::move(token)),
        output_(std::move(output)) {}

  void answer(const error* failure) noexcept override {
    if (failure == nullptr) {
      token_.succeed(std::move(output_));
    } else {
      token_.fail(*failure);
    }
  }
  void answer_enqueued() noexcept override {
    try {
      token_.succeed(Reply(output_));
    } catch (...) {
      token_.fail(current_error());
    }
  }

 private:
  void detach(const error* failure, void (*then)(detached_answer&, void*),
              void* context) noexcept override {
    class moved final : public detached_answer {
     public:
      explicit moved(reply_token<Reply> token) : token_(std::move(token)) {}
      moved(reply_token<Reply> token, Reply output)
          : token_(std::move(token)), output_(std::move(output)) {}
      void give(const error* why) noexcept override {
        if (why != nullptr) {
          token_.fail(*why);
        } else if (output_) {
          token_.succeed(std::move(*output_));
        }
      }

     private:
      reply_token<Reply> token_;
      std::optional<Reply> output_;
    };
    if (failure == nullptr && !token_.answered()) {
      moved answer(std::move(token_), std::move(output_));
      then(answer, context);
    } else {
      moved answer(std::move(token_));
      then(answer, context);
    }
  }

  reply_token<Reply> token_;
  Reply output_;
};

/// A reference to a closure of any type, valid during one call.
class closure_ref {
 public:
  template <class Closure>
  // NOLINTNEXTLINE(google-explicit-constructor): an adaptor for one call.
  closure_ref(Closure& closure)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(closure)))),
        call_([](void* object, const launch_context& context) {
          (*static_cast<Closure*>(object))(context);
        }) {}
  void operator()(const launch_context& context) const { call_(object_, context); }

 private:
  void* object_;
  void (*call_)(void*, const launch_context&);
};

/// Steps 4 to 7 of a launch (docs/concepts/envelope_and_completion.md). Answers on every path.
SLUICE_EXPORT void run_launch(lane& on, std::unique_ptr<launch_continuation> work, reply_on when,
                              const std::string& nvtx_label, closure_ref closure) noexcept;

[[nodiscard]] SLUICE_EXPORT std::uint64_t next_launch_id() noexcept;

}  // namespace detail

}  // namespace sluice
