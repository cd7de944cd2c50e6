// SPDX-License-Identifier: Apache-2.0
// How a runtime ends.
#include "runtime/base/deadline.hpp"
#include "runtime/core/runtime_core.hpp"
#include "runtime/reports/slow_wait.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace sluice::detail {
namespace {

// Made beforehand: an end may not want for memory.
const error& work_unfinished = *new error(
    errc::shutting_down,
    "work was still unfinished when the time for shutting down was over");  // outlives all threads
const error& memory_in_use = *new error(
    errc::shutting_down,
    "memory was still in use when the time for shutting down was over");  // outlives all threads

std::string describe_limit(std::chrono::milliseconds limit) {
  if (limit == std::chrono::milliseconds::max()) return "without a limit";
  return "for at most " + std::to_string(limit.count()) + " ms";
}

}  // namespace

bool runtime_core::drain(std::chrono::milliseconds timeout) noexcept {
  closing_.store(true, std::memory_order_release);
  return finish_launches(deadline_after(timeout), timeout);
}

bool runtime_core::launching() const noexcept {
  bool any = false;
  for_each_timeline([&](timeline& t) { any = any || t.has_reservations(); });
  return any;
}

bool runtime_core::finish_launches(clock::time_point end,
                                   std::chrono::milliseconds limit) noexcept {
  auto pause = std::chrono::microseconds(20);
  slow_wait waiting;
  for (;;) {
    std::size_t busy = 0;
    for_each_timeline([&](timeline& t) { busy += t.advance() < t.newest().ticket ? 1 : 0; });
    if (busy == 0) {
      // What comes after this one comes after all that work, too.
      for_each_timeline([](timeline& t) { t.acquire(t.watermark()); });
      return true;
    }
    if (device_->lost()) return false;
    if (clock::now() >= end) {
      device_->lose(work_unfinished);
      return false;
    }
    waiting.look([&] {
      return "shutting down the runtime of " + to_string(id()) +
             " waits for unfinished launches on " + std::to_string(busy) +
             (busy == 1 ? " stream" : " streams") + ", " + describe_limit(limit);
    });
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
}

bool runtime_core::finish_frees(clock::time_point end) noexcept {
  resource_->close();  // nobody else hands anything over meanwhile
  slow_wait waiting;
  const auto idle_by = [&](clock::time_point limit) {
    for (;;) {
      const auto step = std::min(limit, clock::now() + std::chrono::milliseconds(100));
      if (reclaimer_.idle_by(step)) return true;
      if (step == limit) return false;
      waiting.look([&] {
        return "the end of the runtime of " + to_string(id()) +
               " waits for frees of memory that is still in use";
      });
    }
  };
  // What a resource keeps may go by the reclaim thread, which may give what it has waited for to a
  // resource that keeps it: so a second time.
  for (int round = 0; round < 2; ++round) {
    (void)resource_->trim();
    if (!idle_by(end)) {
      device_->lose(memory_in_use);
      // What a lost device still touches is not waited for here.
      if (!idle_by(clock::now() + std::chrono::seconds(1))) return false;
    }
    reclaimer_.stop();
  }
  return true;
}

void runtime_core::outlive() noexcept {
  outlived_ = true;
  (void)resource_->trim();
  if (reclaimer_.users() != 0) return;  // libraries end on the streams of their lanes
  const std::lock_guard lock(adoption_mutex_);
  for_each_timeline([this](timeline& t) {
    const bool adopts = std::find(adoption_.begin(), adoption_.end(), &t) != adoption_.end();
    if (&t != reclaim_timeline_ && !adopts && !t.has_reservations()) t.retire();
  });
}

void runtime_core::tear_down(std::chrono::milliseconds timeout) noexcept {
  if (std::exchange(torn_down_, true)) return;
  end_work(timeout);
  // Two runtimes that depend on each other's tickets would keep each other.
  for_each_timeline([](timeline& t) { t.forget_upstream(); });
  releases_->drain();
  // Whoever wants room in a budget that this runtime shares may be destroying what it had. For a
  // thread that gives things back others may be waiting.
  const auto end = deadline_after(timeout);
  while (!reclaim_thread::is_reclaim_thread() && !releases_->rests() &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  // Recorders that are still around keep what they know of their streams.
  {
    const std::lock_guard lock(streams_mutex_);
    for (const auto& t : timelines_) t->leave_core_to_holders(shared_from_this());
  }
  // Handles that are still around keep what they know of their blocks.
  const std::lock_guard lock(records_lock_);
  if (records_in_use_ != 0) self_ = shared_from_this();
}

void runtime_core::end_work(std::chrono::milliseconds timeout) noexcept {
  releases_->drain();
  // Not on the thread that gives things back, where a producer that is given an import ends the
  // runtime.
  const bool giving_back = reclaimer_.runs_here();
  const auto libraries_end = deadline_after(timeout);
  slow_wait waiting;
  const auto says = [&](const char* what) {
    waiting.look([&] {
      return "the end of the runtime of " + to_string(id()) + " waits for " + what + ", " +
             describe_limit(timeout);
    });
  };
  while (!giving_back && reclaimer_.users() != 0 &&
         std::chrono::steady_clock::now() < libraries_end) {
    says("libraries of its lanes that are being destroyed");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  const auto end = deadline_after(timeout);
  // References that are still around become stale; records are walked without the lock, since slabs
  // never go.
  for (std::size_t i = 0;; ++i) {
    slab* next = nullptr;
    {
      const std::lock_guard lock(slabs_mutex_);
      if (i == slabs_.size()) break;
      next = slabs_[i].get();
    }
    for (auto& record : *next) (void)free(record);
  }
  // Other threads may be completing frees; a recorder between preflight and commit completes its
  // own. A launch without blocks has a reservation.
  while ((blocks() != 0 || launching()) && std::chrono::steady_clock::now() < end) {
    says("a launch between preflight and commit, or a free in another thread");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  // No preflight has succeeded since the blocks began to die: these were the last launches.
  (void)finish_launches(end, timeout);
  // Imports are on their way back; they may be exports of our own.
  while (!giving_back && reclaimer_.foreign() != 0 && std::chrono::steady_clock::now() < end) {
    says("imported memory that is still in use, or whose producer is taking it back");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  const bool recorded = blocks() != 0;
  const bool imported = !giving_back && reclaimer_.foreign() != 0;
  if (recorded || giving_back || reclaimer_.deferrals() != 0 ||
      exports_.load(std::memory_order_acquire) != 0) {
    // The resource, its reclaim stream and the reclaim thread stay until that recorder is gone, or
    // what came in or went out is back, or nothing runs that was lost; and the streams that order
    // that.
    if (recorded) report("a launch recorder still holds memory of a runtime that is gone");
    if (imported) report("work or a producer still holds imports of a runtime that is gone");
    return outlive();
  }
  // Also serves the transfers of launches that were between preflight and commit.
  end_staging(end);
  if (!finish_frees(end)) return outlive();
  {
    const std::lock_guard lock(misuse_mutex_);
    resource_.reset();
  }
  // The frees that have to wait, too, have run when the device goes.
  try {
    reclaim_timeline_->reserve();
    const auto last = reclaim_timeline_->submit();
    const auto limit = deadline_after(timeout);
    while (reclaim_timeline_->advance() < last && !device_->lost() &&
           std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  } catch (...) {
    // Lost: nothing runs any more.
  }
  for_each_timeline([](timeline& t) { t.retire(); });
}

}  // namespace sluice::detail
