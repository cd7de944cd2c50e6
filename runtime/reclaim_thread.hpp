#pragma once

#include "runtime/timeline.hpp"

#include <sluice/runtime/memory_resource.hpp>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice::detail {

/// Gives memory back that has to wait for points and whose free may block: a thread of its own,
/// started when it is first needed, so that neither lanes nor the completion thread ever wait for a
/// driver's free.
class reclaim_thread {
 public:
  explicit reclaim_thread(runtime_core& core) : core_(core) {}
  reclaim_thread(const reclaim_thread&) = delete;
  reclaim_thread& operator=(const reclaim_thread&) = delete;
  ~reclaim_thread() { stop(); }

  using reclaim_function = void (*)(void* owner, allocation) noexcept;
  /// See `resource_context::reclaim_after`. @throws std::bad_alloc
  void add(std::span<const timeline_point> points, allocation memory, reclaim_function reclaim,
           void* owner);
  /// Waits until everything whose points have completed by now has been reclaimed.
  void finish_ready() noexcept;
  /// Finishes what is waiting (on a lost device, without waiting for points) and ends the thread.
  /// What is added later is reclaimed by whoever adds it.
  void stop() noexcept;

 private:
  struct item {
    timeline_points points;
    allocation memory;
    reclaim_function reclaim;
    void* owner;
  };

  void run() noexcept;
  [[nodiscard]] bool ready(item& i) noexcept;
  static void finish(const item& i) noexcept;

  runtime_core& core_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<item> arrived_;
  std::condition_variable passed_;
  std::uint64_t passes_ = 0;  // over everything that waits
  bool asked_ = false;        // somebody waits for a pass
  bool idle_ = true;          // nothing waits
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sluice::detail
