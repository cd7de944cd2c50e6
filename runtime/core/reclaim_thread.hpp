// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/foreign_memory.hpp"
#include "runtime/timelines/timeline.hpp"

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

/// Gives memory back that has to wait for points and whose free may block: a thread of its own,
/// started when it is first needed, so that neither lanes nor the completion thread ever wait for a
/// driver's free or a foreign deleter.
class reclaim_thread {
 public:
  explicit reclaim_thread(runtime_core& core) : core_(core) {}
  reclaim_thread(const reclaim_thread&) = delete;
  reclaim_thread& operator=(const reclaim_thread&) = delete;
  ~reclaim_thread() { stop(); }

  using reclaim_function = void (*)(void* owner, allocation) noexcept;
  /// See `resource_context::reclaim_after`. @throws std::bad_alloc, std::system_error
  void add(std::span<const timeline_point> points, allocation memory, reclaim_function reclaim,
           void* owner);
  /// Makes sure that there is a thread, so that `add` below needs no other. @throws
  /// std::system_error
  void start();
  /// Takes `one` over, with its share of the core. There is a thread until the runtime has gone
  /// where there are imports or a completion engine; if none can be made later, imports and
  /// libraries go at once, in the calling thread, and what launches may still use never.
  void add(deferred* one) noexcept;
  /// Whether there is a thread.
  [[nodiscard]] bool begun() const noexcept {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  /// Has the thread drain what waits for the driver on the release list. Lock-free but for the
  /// first call since the thread last looked.
  void wake() noexcept;
  /// Waits, for a second at most, until everything whose points have completed by now has been
  /// reclaimed. Not on this thread itself.
  void finish_ready() noexcept;
  /// Waits until nothing is waiting, or the time is `end`. Whether nothing is.
  [[nodiscard]] bool idle_by(std::chrono::steady_clock::time_point end) noexcept;
  /// Finishes what is waiting (on a lost device without waiting for points: the runtime's memory
  /// stays with the device, foreign memory goes back once nothing runs) and ends the thread. Not to
  /// be called while something `deferred` may stay for long. What comes later starts another one.
  void stop() noexcept;
  /// How much foreign memory is on its way back.
  [[nodiscard]] std::size_t foreign() const noexcept {
    return foreign_.load(std::memory_order_acquire);
  }
  /// How much is deferred that may use blocks.
  [[nodiscard]] std::size_t users() const noexcept {
    return users_.load(std::memory_order_acquire);
  }
  /// How much is deferred, imports and others.
  [[nodiscard]] std::size_t deferrals() const noexcept {
    return deferrals_.load(std::memory_order_acquire);
  }
  /// Whether `point` has completed, as the driver says now.
  [[nodiscard]] bool passed(timeline_point point) noexcept;
  [[nodiscard]] runtime_core& core() noexcept { return core_; }
  /// Whether nothing waits or is being reclaimed.
  [[nodiscard]] bool idle() const noexcept;
  /// Whether the calling thread is a reclaim thread, of any runtime.
  [[nodiscard]] static bool is_reclaim_thread() noexcept;
  /// Whether it is this one.
  [[nodiscard]] bool runs_here() const noexcept;

 private:
  struct item {
    timeline_points points;
    allocation memory;
    reclaim_function reclaim;
    void* owner;
  };

  /// Under the lock. @throws std::system_error
  void begin();
  void run() noexcept;
  [[nodiscard]] bool ready(item& i) noexcept;
  static void finish(const item& i) noexcept;
  void let_go(deferred* one) noexcept;

  runtime_core& core_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<item>
      arrived_;  // goes over to the thread without an allocation, which could fail there
  std::condition_variable passed_;
  std::uint64_t passes_ = 0;        // over everything that waits
  bool asked_ = false;              // somebody waits for a pass
  std::atomic<bool> woken_{false};  // the release list has something for this thread
  bool idle_ = true;                // nothing waits
  deferred* arrived_deferred_ = nullptr;
  std::atomic<std::size_t> foreign_{0};
  std::atomic<std::size_t> users_{0};
  std::atomic<std::size_t> deferrals_{0};
  bool begun_ = false;  // then `thread_` belongs to `stop`
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sluice::detail
