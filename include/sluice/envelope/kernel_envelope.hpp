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
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sluice {

/// The stream on which a closure enqueues its launch. Valid during the call of the closure.
struct launch_context {
  stream_ref stream;  ///< the stream of the lane

  /// The native stream: on CUDA a `cudaStream_t`.
  [[nodiscard]] native_stream* native() const { return stream.native(); }
  /// Queues `function` on the stream. Only for streams of a host device.
  template <class Function>
  void submit_host(Function&& function) const {
    submit_host_task(stream, std::forward<Function>(function));
  }
};

/// What a closure throws if it has enqueued nothing. The launch is cancelled: its outputs keep
/// their contents, and nothing that waits for them fails. The error is the reply.
///
///     throw nothing_enqueued(error(errc::unsupported, "cuBLAS does not take these sizes"));
class nothing_enqueued final : public error {
 public:
  /// Cancels the launch and answers it with `failure`.
  explicit nothing_enqueued(const error& failure) : error(failure) {}
};

/// The properties that all launches of one operation share.
struct kernel_description {
  std::string library;                    ///< name of the library: "cuBLAS"
  std::string operation;                  ///< name of the operation: "gemm"
  element_type type = element_type::f32;  ///< element type of the operation
};

/// The properties of one launch.
struct launch_options {
  reply_on when = reply_on::finished;   ///< when the reply is sent
  std::array<std::int64_t, 4> sizes{};  ///< for traces, by operation: m, n, k for gemm
  /// The most device commands that the launch enqueues. Lanes count them (`lane::full`).
  std::size_t commands = 1;
  /// The tag of the request, for traces; nullptr: none.
  std::shared_ptr<const std::string> tag{};
  /// The names of the steps of a program, for traces; nullptr: the launch is no program.
  std::shared_ptr<const std::string> steps{};
  /// Whether the launch counts as a batch of its lane; see `lane_options::max_batches`.
  bool is_batch = false;
};

/// The path that every launch of an operation takes, from validated operands to one reply.
///
///     kernel_envelope gemm({.library = "cuBLAS", .operation = "gemm", .type = element_type::f32});
///     gemm.trace(trace).nvtx_label("sgemm");
///     gemm.run(lane, access_all(runtime, read(a, "a"), read(b, "b"), write(c, "c")), token, c, {},
///              [&](const launch_context& context) { library.gemm(...); });
///
/// An operation needs one envelope. Any thread may call `run`, but only the owner of a lane
/// launches on it. Set the trace and the label before the first `run`.
///
/// A launch takes these steps:
/// * A strict recorder registers the operands and preflights: it takes leases and queues waits.
/// * `before_enqueue`, the closure inside an NVTX range, `after_enqueue`.
/// * The recorder commits.
/// * `before_complete`. The continuation passes to the completion engine.
/// * After completion: `after_complete`, the reply, the release of the owners.
///
/// The closure only enqueues work on the context's stream. It must not allocate device memory and
/// must not wait. If it throws, the launch fails with that error, and the reply is sent at once.
/// The owners stay until the stream has passed the launch. If it throws `nothing_enqueued`, there
/// is no launch.
///
/// docs/concepts/envelope_and_completion.md explains the order.
class kernel_envelope {
 public:
  /// An envelope for launches of one operation.
  explicit kernel_envelope(kernel_description description)
      : names_(std::make_shared<const names>(names{std::move(description), {}, nullptr})) {}

  /// Attaches a trace; nullptr detaches it. Without a trace each hook costs one branch. Call it
  /// before the first `run`.
  kernel_envelope& trace(std::shared_ptr<kernel_trace> trace) {
    names_ = std::make_shared<const names>(
        names{names_->description, names_->nvtx_label, std::move(trace)});
    return *this;
  }
  /// Sets the name of the NVTX range around the closure, and the label that traces receive. An
  /// empty label draws no range. Call it before the first `run`.
  kernel_envelope& nvtx_label(std::string label) {
    names_ =
        std::make_shared<const names>(names{names_->description, std::move(label), names_->trace});
    return *this;
  }
  /// The description passed to the constructor.
  [[nodiscard]] const kernel_description& description() const noexcept {
    return names_->description;
  }

  /// Launches `closure` on `lane` and answers `token` exactly once, with `output` or with
  /// an error. May wait for leases of other launches. Does not synchronize, except with
  /// `completion_strategy::synchronous`.
  ///
  /// `uses` are the owners of everything that the launch touches, from `access_all`. Call it on the
  /// thread that owns the lane. The envelope may be destroyed before the launch completes. The
  /// closure runs once during the call, unless the launch is refused. A refused launch enqueues
  /// nothing and calls no hook; its error is the reply.
  template <class Reply, class Closure>
  void run(lane& lane, operands&& uses, reply_token<Reply> token, Reply output,
           const launch_options& options, Closure&& closure) const noexcept {
    auto work = prepare(lane, std::move(uses), std::move(token), std::move(output), options);
    if (!work) return;
    detail::launch_continuation::run(std::move(work), lane, names_->nvtx_label,
                                     detail::closure_ref(closure));
  }

  /// @cond for the executor
  /// What `run` launches; nullptr if the request has been answered with an error.
  template <class Reply>
  [[nodiscard]] std::unique_ptr<detail::launch_continuation> prepare(
      lane& lane, operands&& uses, reply_token<Reply> token, std::type_identity_t<Reply>&& output,
      const launch_options& options) const noexcept {
    std::shared_ptr<detail::reply_state> reply;
    try {
      const auto text_of = [](const std::shared_ptr<const std::string>& text) {
        return text ? std::string_view(*text) : std::string_view();
      };
      const kernel_info info{.library = description().library,
                             .operation = description().operation,
                             .label = names_->nvtx_label,
                             .tag = text_of(options.tag),
                             .type = description().type,
                             .device = lane.runtime().device().id(),
                             .stream = lane.stream().id(),
                             .launch_id = names_->trace ? detail::next_launch_id() : 0,
                             .sizes = options.sizes,
                             .timed = detail::wants_timestamps(names_->trace.get()),
                             .steps = text_of(options.steps)};
      reply = std::move(token).hold(std::move(output));
      std::unique_ptr<detail::launch_continuation> work(
          new (*lane.load_) detail::launch_continuation(
              std::move(uses), trace_of(options), info, *lane.load_, std::move(reply),
              options.commands, options.when, options.is_batch));
      if (info.timed) work->time(lane.service().timestamps_, *lane.timings_);
      return work;
    } catch (...) {
      const auto cause = current_error();
      // The client that gets the error shares its memory with nobody.
      (void)operands(std::move(uses));
      (void)Reply(std::move(output));
      if (!reply) {
        token.fail(cause);
        return nullptr;
      }
      reply->drop_output();
      reply->give(&cause);
      return nullptr;
    }
  }
  /// The name of the NVTX range.
  [[nodiscard]] const std::string& label() const noexcept { return names_->nvtx_label; }
  /// @endcond

 private:
  struct names {
    kernel_description description;
    std::string nvtx_label;
    std::shared_ptr<kernel_trace> trace;
  };
  using names_of_launch =
      std::tuple<std::shared_ptr<const names>, std::shared_ptr<const std::string>,
                 std::shared_ptr<const std::string>>;

  /// The trace of a launch; nullptr if there is none. It owns the names, too: a hook at completion
  /// reads them, possibly after this envelope has been destroyed.
  [[nodiscard]] std::shared_ptr<kernel_trace> trace_of(const launch_options& options) const {
    auto* const trace = names_->trace.get();
    if (trace == nullptr) return nullptr;
    if (!options.tag && !options.steps) return {names_, trace};
    return {std::make_shared<names_of_launch>(names_, options.tag, options.steps), trace};
  }

  std::shared_ptr<const names> names_;
};

/// Makes one launch without a trace or a label, like `kernel_envelope::run`.
template <class Reply, class Closure>
void run_kernel(lane& lane, operands uses, reply_token<Reply> token, Reply output,
                Closure&& closure) noexcept {
  try {
    const kernel_envelope envelope({.library = "", .operation = "kernel"});
    envelope.run(lane, std::move(uses), token, std::move(output), {},
                 std::forward<Closure>(closure));
  } catch (...) {
    token.fail(current_error());
  }
}

}  // namespace sluice
