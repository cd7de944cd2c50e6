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

void launch_continuation::refuse(std::unique_ptr<launch_continuation> work,
                                 const error& failure) noexcept {
  const auto reply = work->reply_;
  work.reset();  // destroys the output, too
  reply->give(&failure);
}

void launch_continuation::cancel(std::unique_ptr<launch_continuation> work,
                                 const error& failure) noexcept {
  work->trace([&](kernel_trace& trace) { trace.before_complete(work->info_); });
  const auto reply = work->complete(&failure);
  work.reset();  // the client that gets the error shares its memory with nobody
  if (reply) reply->give(&failure);
}

void launch_continuation::answer_early(const error* failure) noexcept {
  if (failure != nullptr) {
    reply_->give(failure);
  } else if (reply_time_ == reply_on::enqueued) {
    reply_->give_early();
  }
}

void launch_continuation::run(std::unique_ptr<launch_continuation> work, lane& lane,
                              const std::string& nvtx_label, closure_ref closure) noexcept {
  const launch_context context{lane.stream()};
  auto* const timeline = timeline::of(lane.stream());
  auto& launch = *work;
  launch.timing_.reserve();
  launch.timing_.describe(launch.info_);
  std::optional<launch_recorder> recorder;
  bool reserved = false;
  try {
    runtime_core::of(lane.runtime())->require_open();  // without operands no recorder checks it
    recorder = launch_recorder::strict(lane.stream());
    for (std::size_t i = 0; i < launch.operands_.size(); ++i) {
      recorder->use(launch.operands_[i].block, launch.operands_[i].access,
                    launch.operands_[i].whole);
    }
    const bool finds_others = launch.load_.occupied.load(std::memory_order_relaxed) != 0;
    if (finds_others) launch_dependencies::look_for_unfinished(*recorder);
    recorder->preflight();
    if (finds_others && launch_dependencies::follow_unfinished(*recorder)) {
      ++launch.load_.dependent;
    }
    if (recorder->recorded_count() == 0) {
      timeline->reserve();
      reserved = true;
      // Checked again, because the end of the runtime waits for this launch only from the
      // reservation on.
      runtime_core::of(lane.runtime())->require_open();
    }
  } catch (...) {
    const auto cause = current_error();
    if (reserved) timeline->unreserve();
    return refuse(std::move(work), cause);
  }

  // Nothing throws from here to the submission.
  std::optional<library_call> call(lane.runtime().device().id());
  launch.begin_time_ = std::chrono::steady_clock::now();
  launch.load_.add(1, launch.part());
  launch.trace([&](kernel_trace& trace) { trace.before_enqueue(launch.info_); });
  std::optional<error> failure;
  bool cancelled = false;
  {
    const nvtx_range range(nvtx_label.c_str());
    const current_device_scope current(lane.runtime().device());
    launch.timing_.begin(lane.stream());
    try {
      lane.runtime().device().require_usable();
      closure(context);
    } catch (const nothing_enqueued& e) {
      failure = e;
      cancelled = true;
    } catch (...) {
      failure = current_error();
    }
    launch.timing_.end(lane.stream());
  }
  const auto* const thrown = failure ? &*failure : nullptr;
  launch.trace([&](kernel_trace& trace) { trace.after_enqueue(launch.info_, thrown); });

  if (cancelled) {
    recorder->cancel();
    if (reserved) timeline->unreserve();
    call.reset();
    return cancel(std::move(work), *failure);
  }

  completion_engine::expect(lane.stream(), launch);
  timeline_point point;
  try {
    if (launch.errors_.get() != nullptr)
      launch_dependencies::find_errors(*recorder, launch.errors_);
    point = recorder->commit(failure);
    if (reserved) {
      point = {timeline->id(),
               timeline->submit({}, thrown, timeline::no_ticket, nullptr, launch.errors_.get())};
      launch.errors_.release();
    }
  } catch (...) {
    // The launch could not be published: the recorder has waited for it, or the device is lost.
    if (!failure) failure = current_error();
  }
  call.reset();
  launch.trace([&](kernel_trace& trace) { trace.before_complete(launch.info_); });

  launch.answer_early(failure ? &*failure : nullptr);
  // A launch without a point gets a substitute ticket: after a loss the engine ignores tickets, and
  // otherwise the stream's work has completed.
  const auto last_ticket = timeline->newest().ticket + (lane.runtime().device().lost() ? 1 : 0);
  lane.engine().submit(lane.stream(), point ? point.ticket : last_ticket, std::move(work));
}

std::shared_ptr<launch_reply> launch_continuation::complete(const error* failure) noexcept {
  if (trace_) {
    const kernel_times times{begin_time_, {}, {}, std::chrono::steady_clock::now()};
    call_trace(trace_.get(), [&](kernel_trace& trace) {
      trace.after_complete(info_, {failure, times.detected - times.enqueued});
    });
    if (info_.timed) timing_.complete(std::move(trace_), info_, times);
  }
  // A client that has received the reply can allocate the memory again at once.
  if (failure == nullptr) operands_.release_blocks();
  load_.remove(part());
  // After an early answer the output stays here, among the owners.
  if (reply_->answered()) return nullptr;
  // The device may still write the output of a failed launch.
  if (failure != nullptr) return reply_;
  return std::move(reply_);
}

}  // namespace sluice::detail
