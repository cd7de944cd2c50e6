// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/lane.hpp>
#include <sluice/envelope/launch_continuation.hpp>
#include <sluice/envelope/operands.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/runtime/host_task.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
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
          std::move(used), trace_, info, on.load_, token, std::move(output));
      if (info.timed) work->time(on.service().timestamps_, names_);
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
