// SPDX-License-Identifier: Apache-2.0
#include "envelope/nvtx_range.hpp"
#include "runtime/seam.hpp"

#include <sluice/envelope/kernel_envelope.hpp>

#include <atomic>
#include <optional>

namespace sluice::detail {

std::uint64_t next_launch_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// Gives the launching functions access to the private state of a continuation.
class launch {
 public:
  explicit launch(launch_continuation& work) noexcept : work_(work) {}
  [[nodiscard]] const operands& used() const noexcept { return work_.used_; }
  [[nodiscard]] kernel_trace* trace() const noexcept { return work_.trace_.get(); }
  [[nodiscard]] const kernel_info& info() const noexcept { return work_.info_; }
  [[nodiscard]] launch_timing& timing() noexcept { return work_.timing_; }
  void begin() noexcept {
    work_.begun_ = std::chrono::steady_clock::now();
    work_.load_->in_flight.fetch_add(1, std::memory_order_relaxed);
    work_.load_->commands.fetch_add(work_.commands_, std::memory_order_relaxed);
  }
  /// Answers a launch that was not made, after its owners have been destroyed.
  static void refuse(std::unique_ptr<launch_continuation> work, const error& why) noexcept {
    struct parts {
      std::unique_ptr<launch_continuation> work;
      const error& why;
    } p{std::move(work), why};
    p.work->detach(
        &why,
        [](launch_continuation::detached_answer& answer, void* context) {
          auto& refused = *static_cast<parts*>(context);
          refused.work.reset();
          answer.give(&refused.why);
        },
        &p);
  }

 private:
  launch_continuation& work_;
};

void launch_continuation::complete(const error* failure,
                                   const std::function<void()>& release) noexcept {
  if (trace_) {
    const kernel_times known{begun_, {}, {}, std::chrono::steady_clock::now()};
    call_trace(trace_.get(), [&](kernel_trace& trace) {
      trace.after_complete(info_, {failure, known.detected - known.enqueued});
    });
    if (info_.timed) timing_.complete(*trace_, info_, known);
  }
  // A client that has received the reply can allocate the memory again at once.
  if (failure == nullptr) used_.release_blocks();
  const auto load = std::move(load_);
  load->commands.fetch_sub(commands_, std::memory_order_seq_cst);
  load->in_flight.fetch_sub(1, std::memory_order_seq_cst);
  struct parts {
    const error* failure;
    const std::function<void()>& release;
  } p{failure, release};
  detach(
      failure,
      [](detached_answer& answer, void* context) {
        const auto& given = *static_cast<parts*>(context);
        given.release();  // from here on this object belongs to the release list
        answer.give(given.failure);
      },
      &p);
  if (load->wanted.exchange(false, std::memory_order_seq_cst) && load->room) load->room();
}

void run_launch(lane& on, std::unique_ptr<launch_continuation> work, reply_on when,
                const std::string& nvtx_label, closure_ref closure) noexcept {
  const launch_context context{on.stream()};
  launch l(*work);
  std::optional<launch_recorder> recorder;
  bool reserved = false;
  try {
    runtime_core::of(on.runtime())->require_open();  // without operands no recorder checks it
    recorder = launch_recorder::strict(on.stream());
    for (std::size_t i = 0; i < l.used().size(); ++i) {
      recorder->use(l.used()[i].block, l.used()[i].access, l.used()[i].whole);
    }
    recorder->preflight();
    if (recorder->recorded_count() == 0) {
      timeline::of(on.stream())->reserve();
      reserved = true;
      // Checked again, because the end of the runtime waits for this launch only from the
      // reservation on.
      runtime_core::of(on.runtime())->require_open();
    }
  } catch (...) {
    if (reserved) timeline::of(on.stream())->unreserve();
    launch::refuse(std::move(work), current_error());
    return;
  }

  // Nothing throws from here to the submission.
  launch(*work).begin();
  call_trace(l.trace(), [&](kernel_trace& trace) { trace.before_enqueue(l.info()); });
  std::optional<error> failure;
  {
    const nvtx_range range(nvtx_label.c_str());
    const current_device_scope current(on.runtime().device());
    l.timing().begin(on.stream());
    try {
      closure(context);
    } catch (...) {
      failure = current_error();
    }
    l.timing().end(on.stream());
  }
  call_trace(l.trace(), [&](kernel_trace& trace) {
    trace.after_enqueue(l.info(), failure ? &*failure : nullptr);
  });

  auto* timeline = timeline::of(on.stream());
  completion_engine::expect(on.stream(), *work);
  timeline_point point;
  try {
    point = recorder->commit(failure);
    if (reserved) point = {timeline->id(), timeline->submit({}, failure ? &*failure : nullptr)};
  } catch (...) {
    // The launch could not be published: the recorder has waited for it, or the device is lost.
    if (!failure) failure = current_error();
  }
  call_trace(l.trace(), [&](kernel_trace& trace) { trace.before_complete(l.info()); });

  if (failure) {
    work->answer(&*failure);
  } else if (when == reply_on::enqueued) {
    work->answer_enqueued();
  }
  // A launch without a point gets a substitute ticket: after a loss the engine ignores tickets, and
  // otherwise the stream's work has completed.
  const auto ticket = point ? point.ticket
                            : (on.runtime().device().lost() ? timeline->newest().ticket + 1
                                                            : timeline->newest().ticket);
  on.engine().submit(on.stream(), ticket, std::move(work));
}

}  // namespace sluice::detail
