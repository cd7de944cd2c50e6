// SPDX-License-Identifier: Apache-2.0
// The end of a runtime.
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

// Constructed in advance, so that the end of a runtime needs no memory.
const error& work_unfinished =
    *new error(errc::shutting_down,
               "the shutdown timed out with unfinished work");  // never destroyed
const error& memory_in_use =
    *new error(errc::shutting_down,
               "the shutdown timed out with memory still in use");  // never destroyed

std::string describe_limit(std::chrono::milliseconds limit) {
  if (limit == std::chrono::milliseconds::max()) return "no timeout";
  return "timeout " + std::to_string(limit.count()) + " ms";
}

}  // namespace

bool runtime_core::drain(std::chrono::milliseconds timeout) noexcept {
  closing_.store(true, std::memory_order_release);
  return finish_launches(deadline_after(timeout), timeout);
}

bool runtime_core::launching() const noexcept {
  bool any = false;
  // Frees of the reclaim thread are no launches; `finish_frees` waits for them.
  for_each_timeline(
      [&](timeline& t) { any = any || (&t != reclaim_timeline_ && t.has_reservations()); });
  return any;
}

bool runtime_core::finish_launches(clock::time_point end,
                                   std::chrono::milliseconds limit) noexcept {
  auto pause = std::chrono::microseconds(20);
  slow_wait wait;
  for (;;) {
    std::size_t busy = 0;
    for_each_timeline([&](timeline& t) { busy += t.advance() < t.newest().ticket ? 1 : 0; });
    if (busy == 0) {
      // Acquired, so that the caller's next accesses happen after all of that work.
      for_each_timeline([](timeline& t) { t.acquire(t.watermark()); });
      return true;
    }
    if (device_->lost()) return false;
    if (clock::now() >= end) {
      device_->lose(work_unfinished);
      return false;
    }
    wait.look([&] {
      return "shutting down the runtime of " + to_string(id()) +
             ": waiting for unfinished launches on " + std::to_string(busy) +
             (busy == 1 ? " stream (" : " streams (") + describe_limit(limit) + ")";
    });
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
}

bool runtime_core::finish_frees(clock::time_point end) noexcept {
  resource_->close();  // no thread passes memory on meanwhile
  slow_wait wait;
  const auto idle_by = [&](clock::time_point limit) {
    for (;;) {
      const auto step = std::min(limit, clock::now() + std::chrono::milliseconds(100));
      if (reclaimer_.idle_by(step)) return true;
      if (step == limit) return false;
      wait.look([&] {
        return "destroying the runtime of " + to_string(id()) +
               ": waiting for frees of memory that is still in use";
      });
    }
  };
  // The reclaim thread may pass kept memory to a resource that keeps it, hence the second round.
  for (int round = 0; round < 2; ++round) {
    (void)resource_->trim();
    if (!idle_by(end)) {
      device_->lose(memory_in_use);
      // Memory that a lost device still touches is not waited for here.
      if (!idle_by(clock::now() + std::chrono::seconds(1))) return false;
    }
    reclaimer_.stop();
  }
  return true;
}

void runtime_core::outlive() noexcept {
  outlived_ = true;
  (void)resource_->trim();
  if (reclaimer_.users() != 0) return;  // libraries are destroyed on the streams of their lanes
  const std::lock_guard lock(adoption_mutex_);
  for_each_timeline([this](timeline& t) {
    const bool adopts = std::find(adoption_.begin(), adoption_.end(), &t) != adoption_.end();
    if (&t != reclaim_timeline_ && !adopts && !t.has_reservations()) t.retire();
  });
}

void runtime_core::tear_down(std::chrono::milliseconds timeout) noexcept {
  if (std::exchange(torn_down_, true)) return;
  end_work(timeout);
  // Two runtimes that depend on each other's tickets would keep each other alive.
  for_each_timeline([](timeline& t) { t.forget_upstream(); });
  releases_->drain();
  // A thread that makes room in a shared budget may be releasing owners of this runtime. A reclaim
  // thread does not wait, because other threads may wait for it.
  const auto end = deadline_after(timeout);
  while (!reclaim_thread::is_reclaim_thread() && !releases_->rests() &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  // Recorders that outlive the runtime keep the core through their streams.
  {
    const std::lock_guard lock(streams_mutex_);
    for (const auto& t : timelines_) t->leave_core_to_holders(shared_from_this());
  }
  // References that outlive the runtime keep the core through their blocks.
  const std::lock_guard lock(records_lock_);
  if (records_in_use_ != 0) self_ = shared_from_this();
}

void runtime_core::end_work(std::chrono::milliseconds timeout) noexcept {
  releases_->drain();
  // The reclaim thread does not wait for itself: a producer's deleter may end the runtime there.
  const bool giving_back = reclaimer_.runs_here();
  const auto libraries_end = deadline_after(timeout);
  slow_wait wait;
  const auto says = [&](const char* subject) {
    wait.look([&] {
      return "destroying the runtime of " + to_string(id()) + ": waiting for " + subject + " (" +
             describe_limit(timeout) + ")";
    });
  };
  while (!giving_back && reclaimer_.users() != 0 &&
         std::chrono::steady_clock::now() < libraries_end) {
    says("libraries of its lanes that are being destroyed");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  const auto end = deadline_after(timeout);
  // References that still exist become stale. The records are visited without the lock, because
  // slabs are never freed.
  for (std::size_t i = 0;; ++i) {
    slab* next = nullptr;
    {
      const std::lock_guard lock(slabs_mutex_);
      if (i == slabs_.size()) break;
      next = slabs_[i].get();
    }
    for (auto& record : *next) (void)free(record);
  }
  // Other threads may be completing frees. A recorder between preflight and commit completes its
  // own. A launch without blocks has a reservation.
  bool recorded = blocks() != 0 || launching();
  while (recorded && std::chrono::steady_clock::now() < end) {
    says("a launch between preflight and commit, or a free in another thread");
    if (giving_back) releases_->drain();  // no other thread makes frees that may call the driver
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    recorded = blocks() != 0 || launching();
  }
  // No preflight has succeeded since the blocks began to die, so these are the last launches.
  (void)finish_launches(end, timeout);
  // Imports are being returned. They may be exports of this runtime.
  while (!giving_back && reclaimer_.foreign() != 0 && std::chrono::steady_clock::now() < end) {
    says("imported memory that is still in use or is being returned to its producer");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  // Losing the device may have ended them.
  recorded = recorded && (blocks() != 0 || launching());
  const bool imported = !giving_back && reclaimer_.foreign() != 0;
  if (recorded || giving_back || reclaimer_.deferrals() != 0 ||
      exports_.load(std::memory_order_acquire) != 0) {
    // The resource, the reclaim thread and the streams that order frees stay until the recorder,
    // the imports, the exports and the libraries have ended, or until lost work is quiescent.
    if (recorded) report("a launch recorder still uses memory of a destroyed runtime");
    if (imported)
      report(
          "imported memory of a destroyed runtime is still in use or being returned to its "
          "producer");
    return outlive();
  }
  // This also completes the transfers of launches that were between preflight and commit.
  end_staging(end);
  if (!finish_frees(end)) return outlive();
  {
    const std::lock_guard lock(misuse_mutex_);
    resource_.reset();
  }
  // Deferred frees, too, have run before the device is destroyed.
  try {
    reclaim_timeline_->reserve();
    const auto last = reclaim_timeline_->submit();
    const auto limit = deadline_after(timeout);
    while (reclaim_timeline_->advance() < last && !device_->lost() &&
           std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  } catch (...) {
    // The device is lost, so the last ticket will not complete.
  }
  for_each_timeline([](timeline& t) { t.retire(); });
}

}  // namespace sluice::detail
