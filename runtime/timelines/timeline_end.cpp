// SPDX-License-Identifier: Apache-2.0
// The holds on a timeline's core and stream, and the end of both.
#include "runtime/timelines/runtime_context.hpp"
#include "runtime/timelines/timeline.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace sluice::detail {

bool timeline::captured() noexcept {
  if (owned_) return false;
  const std::lock_guard lock(submission_);  // the stream's owner may destroy it once it is retired
  return !retired() && device_.capturing(native_);
}

bool timeline::hold_core() noexcept {
  auto holds = core_holds_.load(std::memory_order_relaxed);
  while ((holds & runtime_gone_bit) == 0) {
    if (core_holds_.compare_exchange_weak(holds, holds + 1, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;  // the count must not grow again after it may have reached zero
}

std::shared_ptr<runtime_core> timeline::let_go_of_core() noexcept {
  if (core_holds_.fetch_sub(1, std::memory_order_release) != (runtime_gone_bit | 1)) return {};
  (void)core_holds_.load(std::memory_order_acquire);
  return std::move(core_of_holders_);
}

void timeline::leave_core_to_holders(std::shared_ptr<runtime_core> core) noexcept {
  // Stored before the bit is set, because the last holder may read it at once.
  core_of_holders_ = std::move(core);
  if (core_holds_.fetch_or(runtime_gone_bit, std::memory_order_acq_rel) == 0) {
    core_of_holders_.reset();
  }
}

bool timeline::keep_stream() noexcept {
  const std::lock_guard lock(submission_);
  if (retired()) return false;
  ++keepers_;
  return true;
}

void timeline::let_go_of_stream() noexcept {
  const std::lock_guard lock(submission_);
  if (--keepers_ == 0 && retired() && owned_) device_.destroy_stream(native_);
}

void timeline::synchronize() {
  if (device_.inherited()) device_.require_usable();  // the parent may have held the lock
  const auto newest = submitted_.load(std::memory_order_acquire);
  if (keep_stream()) {
    struct keeper {
      timeline& owner;
      ~keeper() { owner.let_go_of_stream(); }
    } const keeping{*this};
    device_.synchronize(native_);
  }
  // Another thread may have begun to advance before the work finished, so the watermark may lag.
  wait_until(newest);
}

void timeline::retire() noexcept {
  if (device_.inherited()) return;
  if (retired()) {
    const std::lock_guard lock(submission_);  // the retiring thread still uses the native stream
    return;
  }
  std::unique_ptr<cross_runtime_dependency> upstream;
  bool reserved = false;
  try {
    reserve();
    reserved = true;
  } catch (...) {
    // Without a last ticket only a launch that commits after the end of its stream is unprotected.
  }
  {
    const std::lock_guard lock(submission_);
    if (reserved) --reserved_;
    if (retired_.exchange(true, std::memory_order_acq_rel)) return;
    bool behind = false;
    try {
      if (reserved) (void)take_ticket({}, nullptr, no_ticket, upstream, nullptr);
      behind = reserved;
    } catch (...) {
      // The device is lost: `quiescent` tells whether work still runs.
    }
    if (owned_ && keepers_ == 0) device_.destroy_stream(native_);
    gone_ = behind || !owned_ || !device_.lost();  // a lost device destroys no stream
  }
  context_.count_stream_retired();
  context_.note_retired(*this);
}

bool timeline::give_up_slots() noexcept {
  if (!advancing_.try_lock()) return false;
  const std::lock_guard lock(advancing_, std::adopt_lock);
  if (newest_ring_.load(std::memory_order_acquire) == nullptr) return true;
  const auto completed_ticket = watermark_.load(std::memory_order_relaxed);
  // If waits are queued even for completed points, the events stay.
  if (!retired() || completed_ticket != submitted_.load(std::memory_order_acquire) ||
      !context_.completion_orders()) {
    return false;
  }
  if (!slots_given_up_.load(std::memory_order_relaxed)) {
    // A thread that finds the flag set thereby acquires the effects of all work.
    if (completed_ticket != 0) device_.acquire(slot_of(completed_ticket).event, completed_ticket);
    slots_given_up_.store(true, std::memory_order_seq_cst);
  }
  if (hazard_pointer::any(*this)) return false;  // an earlier reader; the caller retries
  std::unique_ptr<ring> rings;
  decltype(waits_by_stream_) waits_by_stream;
  {
    const std::lock_guard submission(submission_);
    if (reserved_ != 0) return false;  // a launch on the retired stream is in progress
    rings = std::move(rings_);
    waits_by_stream = std::move(waits_by_stream_);
    newest_ring_.store(nullptr, std::memory_order_relaxed);
    give_back_word();
  }
  destroy_events(rings.get());
  return true;
}

bool timeline::quiescent() noexcept {
  // A thread may be queuing work in a driver that blocks: then the stream is not quiescent.
  if (!submission_.try_lock()) return false;
  const std::lock_guard lock(submission_, std::adopt_lock);
  native_event* last = nullptr;
  if (newest_ring_.load(std::memory_order_relaxed) == nullptr) return true;  // all has completed
  if (gone_) {
    // An event that was never recorded stands for no work.
    last = slot_of(std::max<std::uint64_t>(submitted_.load(std::memory_order_relaxed), 1)).event;
  }
  return device_.quiescent(native_, last);
}

}  // namespace sluice::detail
