#pragma once

#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/lane.hpp>
#include <sluice/envelope/launch_timing.hpp>
#include <sluice/envelope/operands.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/runtime/host_task.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace sluice {

/// What a closure needs to enqueue its launch. Valid during the closure.
struct launch_context {
  stream_ref stream;  ///< the stream of the lane

  /// The stream as the device's libraries know it: on CUDA a `cudaStream_t`.
  [[nodiscard]] native_stream* native() const { return stream.native(); }
  /// On a host device: queues `function` as the launch.
  template <class Function>
  void submit_host(Function&& function) const {
    submit_host_task(stream, std::forward<Function>(function));
  }
};

/// What an operation is, the same for all of its launches.
struct kernel_description {
  std::string library;                    ///< name of the library: "cuBLAS"
  std::string operation;                  ///< name of the operation: "gemm"
  element_type type = element_type::f32;  ///< element type of the operation
};

/// What one launch says of itself.
struct launch_options {
  reply_on when = reply_on::finished;   ///< when the reply is sent
  std::array<std::int64_t, 4> sizes{};  ///< the operation's own, for traces: m, n, k for gemm
  /// How many device commands it enqueues at most. Lanes count them (`lane::full`).
  std::size_t commands = 1;
};

namespace detail {

/// The continuation of a launch: owners, trace, and (in the derived class) the reply.
class launch_continuation : public continuation {
 public:
  launch_continuation(operands used, std::shared_ptr<kernel_trace> trace, const kernel_info& info,
                      std::shared_ptr<lane_load> load)
      : used_(std::move(used)), trace_(std::move(trace)), info_(info), load_(std::move(load)) {}

  void complete(const error* failure, const std::function<void()>& release) noexcept final;
  /// Before the launch.
  void count_commands(std::size_t commands) noexcept { commands_ = commands; }

  /// Has the launch timed for its trace.
  void time(launch_timestamps& by, std::shared_ptr<const void> names) noexcept {
    timing_ = by.prepare(trace_, info_, std::move(names));
  }

  /// Answers; `failure` is nullptr for success. Harmless when the answer has been given.
  virtual void answer(const error* failure) noexcept = 0;
  /// Answers with a copy of the output, which stays.
  virtual void answer_enqueued() noexcept = 0;

 protected:
  /// Takes the reply out of this object, which may be gone when it is called. Outputs leave with a
  /// reply that carries them, and stay with the owners otherwise.
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

/// A closure of any type, referred to during a call.
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

/// Steps 2 to 6 of the envelope. Answers on every path.
void run_launch(lane& on, std::unique_ptr<launch_continuation> work, reply_on when,
                const std::string& nvtx_label, closure_ref closure) noexcept;

[[nodiscard]] std::uint64_t next_launch_id() noexcept;

}  // namespace detail

/// The one path that every launch takes. Built once per operation, run many times; `run` may be
/// called from any thread, but launches of one lane come from its owner.
///
///     kernel_envelope gemm({.library = "cuBLAS", .operation = "gemm", .type = element_type::f32});
///     gemm.trace(trace).nvtx_label("sgemm");
///     gemm.run(lane, access_all(runtime, read(a, "a"), read(b, "b"), write(c, "c")), token, c, {},
///              [&](const launch_context& context) { library.gemm(...); });
///
/// Order: a strict recorder over the operands, its preflight (leases, waits), `before_enqueue`, the
/// closure inside an NVTX range, `after_enqueue`, commit, `before_complete`, hand-over to the
/// completion engine; on completion `after_complete`, the one reply, then the owners are let go.
///
/// The closure only enqueues on the context's stream: no allocation of device memory, no waiting.
/// One that throws fails the launch with that error; the reply goes at once, the owners stay until
/// the stream has passed the launch.
class kernel_envelope {
 public:
  /// An envelope for launches of one operation.
  explicit kernel_envelope(kernel_description description)
      : names_(std::make_shared<const names>(names{std::move(description), {}})) {}

  /// Attaches a trace; nullptr takes it off. With none, the cost is a branch per hook. Before the
  /// first run.
  kernel_envelope& trace(std::shared_ptr<kernel_trace> trace) {
    trace_ = std::move(trace);
    return *this;
  }
  /// Names the NVTX range around the closure (and the label that traces see). Empty: no range.
  /// Before the first run.
  kernel_envelope& nvtx_label(std::string label) {
    names_ = std::make_shared<const names>(names{names_->description, std::move(label)});
    return *this;
  }
  /// The description that the envelope was made with.
  [[nodiscard]] const kernel_description& description() const noexcept {
    return names_->description;
  }

  /// Launches `closure` on `on`, and answers `token` with `output` or an error, exactly once on
  /// every path. `used` are the owners of everything the launch touches, from `access_all`.
  template <class Reply, class Closure>
  void run(lane& on, operands used, reply_token<Reply> token, Reply output,
           const launch_options& options, Closure&& closure) const noexcept {
    try {
      const kernel_info info{description().library,
                             description().operation,
                             names_->nvtx_label,
                             description().type,
                             on.runtime().device().id(),
                             on.stream().id(),
                             trace_ ? detail::next_launch_id() : 0,
                             options.sizes,
                             trace_ && trace_->wants_timestamps()};
      // The trace is told of the names at completion, too, when this envelope may be gone.
      if (trace_) used.keep(names_);
      auto work = std::make_unique<detail::typed_continuation<Reply>>(
          std::move(used), trace_, info, on.load(), token, std::move(output));
      if (info.timed) work->time(on.service().timestamps(), names_);
      work->count_commands(options.commands);
      detail::run_launch(on, std::move(work), options.when, names_->nvtx_label,
                         detail::closure_ref(closure));
    } catch (...) {
      token.fail(current_error());
    }
  }

 private:
  struct names {
    kernel_description description;
    std::string nvtx_label;
  };

  std::shared_ptr<const names> names_;
  std::shared_ptr<kernel_trace> trace_;
};

/// The short form: one launch without a trace or a label.
template <class Reply, class Closure>
void run_kernel(lane& on, operands used, reply_token<Reply> token, Reply output,
                Closure&& closure) noexcept {
  try {
    const kernel_envelope envelope({.library = "", .operation = "kernel"});
    envelope.run(on, std::move(used), token, std::move(output), {}, std::forward<Closure>(closure));
  } catch (...) {
    token.fail(current_error());
  }
}

}  // namespace sluice
