// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/foreign_memory.hpp"
#include "runtime/timelines/timeline.hpp"

#include <sluice/export.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>

namespace sluice::detail {

/// The thread of a runtime that frees what must wait for points, and makes frees that may block.
///
/// It starts when it is first needed. Lanes and the completion thread therefore never wait for a
/// driver's free or a foreign deleter. Thread-safe unless a function states otherwise.
class reclaim_thread {
 public:
  explicit reclaim_thread(runtime_core& core) : core_(core) {}
  reclaim_thread(const reclaim_thread&) = delete;
  reclaim_thread& operator=(const reclaim_thread&) = delete;
  ~reclaim_thread() { stop(); }

  using reclaim_function = void (*)(void* owner, allocation) noexcept;
  /// Calls `reclaim` for `memory` once `points` have completed. See
  /// `resource_context::reclaim_after`.
  /// @throws std::bad_alloc
  /// @throws std::system_error if the thread cannot be started
  void add(std::span<const timeline_point> points, allocation memory, reclaim_function reclaim,
           void* owner);
  /// Starts the thread unless it runs, so that `add` below needs no new one.
  /// @throws std::system_error if the thread cannot be started
  void start();
  /// Takes over `object`, which holds a share of the core. With an import or a completion engine
  /// the thread runs until the end of the runtime. If it must be started later and cannot be,
  /// imports and libraries are destroyed at once on the calling thread. Objects that launches may
  /// still use are then never destroyed.
  void add(deferred* object) noexcept;
  /// Whether the thread runs.
  [[nodiscard]] bool begun() const noexcept {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  /// Makes the thread drain the release list, `push_for_driver` included. Lock-free, except for the
  /// first call since the thread last drained.
  void wake() noexcept;
  /// Waits until everything whose points have completed has been reclaimed, for at most a second.
  /// Returns at once on this thread.
  void finish_ready() noexcept;
  /// Waits until nothing is left to reclaim, or until `end`. Returns whether nothing is left.
  [[nodiscard]] bool idle_by(std::chrono::steady_clock::time_point end) noexcept;
  /// Finishes the remaining work and ends the thread. On a lost device it does not wait for points:
  /// the runtime's memory stays with the device, and foreign memory returns once nothing runs. Not
  /// to be called while a `deferred` object may stay for long. A later `add` starts another thread.
  void stop() noexcept;
  /// The number of foreign memories that are being returned.
  [[nodiscard]] std::size_t foreign() const noexcept {
    return foreign_.load(std::memory_order_acquire);
  }
  /// The number of deferred objects that the end of the runtime waits for first.
  [[nodiscard]] std::size_t users() const noexcept {
    return users_.load(std::memory_order_acquire);
  }
  /// The number of deferred objects, imports included.
  [[nodiscard]] std::size_t deferrals() const noexcept {
    return deferrals_.load(std::memory_order_acquire);
  }
  /// Whether `point` has completed. Queries the device.
  [[nodiscard]] bool passed(timeline_point point) noexcept;
  [[nodiscard]] runtime_core& core() noexcept { return core_; }
  /// Whether nothing waits and nothing is being reclaimed.
  [[nodiscard]] bool idle() const noexcept;
  /// Whether the calling thread is the reclaim thread of any runtime.
  [[nodiscard]] static bool is_reclaim_thread() noexcept;
  /// Whether the calling thread is this one.
  [[nodiscard]] bool runs_here() const noexcept;

 private:
  struct item {
    timeline_points points;
    allocation memory;
    reclaim_function reclaim;
    void* owner;
  };

  /// Starts the thread unless it runs, under the lock.
  /// @throws std::system_error
  void begin();
  void run() noexcept;
  [[nodiscard]] bool ready(item& i) noexcept;
  static void finish(const item& i) noexcept;
  void let_go(deferred* object) noexcept;

  runtime_core& core_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<item> inbox_;  // spliced into the thread's list: an allocation there could fail
  std::condition_variable passed_;
  std::uint64_t passes_ = 0;        // over everything that waits
  bool pass_requested_ = false;     // a thread waits for a pass
  std::atomic<bool> woken_{false};  // the release list has items for this thread
  bool idle_ = true;                // nothing waits
  deferred* arrived_deferred_ = nullptr;
  std::atomic<std::size_t> foreign_{0};
  std::atomic<std::size_t> users_{0};
  std::atomic<std::size_t> deferrals_{0};
  bool begun_ = false;  // then only `stop` touches `thread_`
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sluice::detail
