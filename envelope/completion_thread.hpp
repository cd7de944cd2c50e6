// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/seam.hpp"

#include <sluice/envelope/completion_engine.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::detail {

/// What the threads of an engine share. It outlives the engine.
struct completion_work {
  completion_work(std::shared_ptr<runtime_core> c, completion_strategy s, wait_policy w)
      : core(std::move(c)), strategy(s), policy(w) {}

  /// The number of continuations of all threads that have not completed. 0 means that there was
  /// none at one time during the call.
  [[nodiscard]] std::size_t pending() const noexcept;

  const std::shared_ptr<runtime_core> core;
  const completion_strategy strategy;
  const wait_policy policy;
  std::atomic<bool> stopping{false};
  /// One without a thread with `completion_strategy::synchronous`.
  std::vector<std::unique_ptr<completion_thread>> threads{};
};

/// Completes the launches of some of the streams of an engine.
class completion_thread {
 public:
  explicit completion_thread(completion_work& work);
  completion_thread(const completion_thread&) = delete;
  completion_thread& operator=(const completion_thread&) = delete;

  /// Starts the thread, which keeps `work` alive.
  /// @throws std::system_error if it cannot be started
  void start(const std::shared_ptr<completion_work>& work);
  /// Has the thread look whether the engine ends.
  void wake() noexcept { alarm_->changed.raise(); }
  [[nodiscard]] bool is_current() const noexcept {
    return thread_.get_id() == std::this_thread::get_id();
  }
  /// Waits for the end of the thread, or lets it end by itself. Nothing if there is none.
  ///@{
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  void detach() {
    if (thread_.joinable()) thread_.detach();
  }
  ///@}

  /// Takes over `count` continuations of `stream`, from `newest` to `oldest`. Any thread.
  void submit(stream_ref stream, continuation* newest, continuation* oldest,
              std::size_t count) noexcept;
  /// The same with `completion_strategy::synchronous`: completes them on the calling thread.
  void complete_here(continuation* newest, std::size_t count) noexcept;

  /// The numbers of continuations that have been submitted and completed so far.
  ///@{
  [[nodiscard]] std::size_t submitted() const noexcept {
    return submitted_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::size_t completed() const noexcept {
    return completed_.load(std::memory_order_acquire);
  }
  ///@}

 private:
  /// The state that host functions share: they may run late, and must not hold the runtime's core.
  struct alarm {
    std::atomic<std::uint64_t> wakes{0};  // the number of host functions that have run
    one_way_signal changed;
  };
  /// Owners of launches on a lost device that may still run.
  class lost_launches;

  void run() noexcept;
  void take_inbox() noexcept;
  /// Inserts a continuation into the queue of its stream. A test counts its instructions.
  [[gnu::noinline]] void insert(continuation* item) noexcept;
  /// Makes `item` the first of the queue whose first continuation is at `link`.
  static void put_first(continuation** link, continuation* item) noexcept;
  /// Takes the first continuation out of its queue.
  [[nodiscard]] static continuation* take_first(continuation** link) noexcept;
  /// Turns a list around: the oldest continuation comes first.
  [[nodiscard]] static continuation* oldest_first(continuation* newest) noexcept;
  /// Completes continuations whose tickets have completed, or any after a loss, of each stream at
  /// most those of one turn. Returns whether there was one.
  bool complete_ready() noexcept;
  /// Releases items if the backlog exceeds the launches in flight by too much.
  void bound_backlog() noexcept;
  /// Ends a launch: calls its hooks, passes it to `release`, and gives its reply. `finished` is
  /// false for a launch that may still run on a lost device.
  template <class Release>
  void complete(continuation* item, bool finished, Release release) noexcept;
  /// The same. A finished launch goes to the release list, another one to `unreleased_`.
  void complete(continuation* item, bool finished) noexcept;
  /// Waits for a launch and completes it on the calling thread.
  void complete_one_here(continuation* item) noexcept;
  /// After a loss: releases the owners of launches whose streams are quiescent.
  void release_quiescent() noexcept;
  /// Passes answered launches to the reclaim thread, which destroys their owners once their streams
  /// are quiescent.
  void leave(continuation* items) noexcept;
  /// Whether there are no launches in the queues.
  [[nodiscard]] bool answered() const noexcept { return queues_ == nullptr; }

  completion_work& work_;
  std::thread thread_;
  const std::shared_ptr<alarm> alarm_ = std::make_shared<alarm>();
  std::atomic<continuation*> inbox_{nullptr};  // newest first
  std::atomic<std::size_t> submitted_{0};

  // Only the thread writes these, but for `completed_` with `completion_strategy::synchronous`:
  alignas(64) std::atomic<std::size_t> completed_{0};
  continuation* queues_ = nullptr;      // the first of each stream, by their `next_queue_`
  continuation* unreleased_ = nullptr;  // answered after a loss; their streams may not be quiescent
};

}  // namespace sluice::detail
