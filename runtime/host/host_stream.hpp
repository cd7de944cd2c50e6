// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/one_way_signal.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/host_device.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace sluice::host {

class host_stream;

/// What the host device has for an event: the newest record asked for, and the newest that a stream
/// thread has reached. Each event has its own flag, and a wait acquires that flag only: exactly the
/// edges of a GPU.
class host_event {
 public:
  /// Made with one share; each queued task that names it holds another. Holding more orders nobody,
  /// and letting go orders only who destroys it.
  void hold() noexcept { shares_.fetch_add(1, std::memory_order_relaxed); }
  void let_go() noexcept {
    if (shares_.fetch_sub(1, std::memory_order_release) != 1) return;
    (void)shares_.load(std::memory_order_acquire);
    delete this;
  }
  /// Whether a record has been queued that no stream has reached.
  [[nodiscard]] bool pending() const noexcept {
    return reached_.load(std::memory_order_relaxed) / 2 < recorded_.load(std::memory_order_relaxed);
  }

  /// Producer side: a record with `value` is about to be queued.
  void mark_recorded(std::uint64_t value) noexcept {
    recorded_.store(value, std::memory_order_relaxed);
  }
  [[nodiscard]] bool was_recorded(std::uint64_t value) const noexcept {
    return recorded_.load(std::memory_order_relaxed) >= value;
  }

  /// Stream thread: the record with `value` has been reached; `failure` is what went wrong since
  /// the last record.
  void reach(std::uint64_t value, std::optional<error> failure) noexcept;
  [[nodiscard]] event_state state(std::uint64_t value) const noexcept;
  void acquire() const noexcept { (void)reached_.load(std::memory_order_acquire); }
  /// Blocks until the record with `value` is reached or the device is lost.
  void wait(std::uint64_t value, const device& owner) noexcept;
  /// The same, for at most about `longest`. Whether it was for one of these reasons.
  [[nodiscard]] bool wait_for(std::uint64_t value, const device& owner,
                              std::chrono::nanoseconds longest) noexcept;
  /// Wakes the waiters, so that they look at the device's loss.
  void wake() noexcept { signal_.raise(); }
  [[nodiscard]] error failure() const;

 private:
  std::atomic<std::uint32_t> shares_{1};
  std::atomic<std::uint64_t> recorded_{0};
  std::atomic<std::uint64_t> reached_{0};  // value * 2, plus 1 when the work before it failed
  detail::one_way_signal signal_;
  std::optional<error> failure_;  // written before reached_, read after acquiring it
};

/// One piece of work in a stream's queue.
class host_task {
 public:
  enum class kind : std::uint8_t {
    work,
    marker
  };  // markers (records, waits) are not delayed, never fail and run after loss, too

  explicit host_task(kind k = kind::work) noexcept : kind_(k) {}
  host_task(const host_task&) = delete;
  host_task& operator=(const host_task&) = delete;
  virtual ~host_task() = default;
  virtual void run(host_stream& stream) = 0;

 private:
  friend class host_stream;
  kind kind_;
  bool fails_ = false;
  std::atomic<host_task*> next_{nullptr};
};

/// A task made of a callable.
template <class Function>
class function_task final : public host_task {
 public:
  explicit function_task(Function function, kind k = kind::work)
      : host_task(k), function_(std::move(function)) {}
  void run(host_stream&) override { function_(); }

 private:
  Function function_;
};

/// A stream of the host device: a thread that runs a queue in order.
///
/// Submitting is one-way: the queue is a list whose links producers release and the thread
/// acquires, and the thread writes nothing that a producer reads. So a producer learns nothing of
/// finished work by submitting more.
class host_stream {
 public:
  host_stream(device& owner, std::uint64_t number, const host_device_options& options);
  host_stream(const host_stream&) = delete;
  host_stream& operator=(const host_stream&) = delete;
  /// Joins the thread, after the queued work has run.
  ~host_stream();

  /// Queues `task` and owns it. Any thread; tasks of one thread keep their order.
  void submit(host_task* task) noexcept;
  /// Queues `task` as a launch or a copy that the fault script may strike.
  void submit_counted(host_task* task, fault_target target) noexcept;
  /// Queues the end: the thread leaves after the work before it. Only the first call counts. The
  /// caller keeps calls of this, of `ending` and of `submit_quiescence` apart.
  void stop() noexcept {
    if (end_) submit(end_.release());
  }
  /// Whether the end has been queued.
  [[nodiscard]] bool ending() const noexcept { return end_ == nullptr; }
  /// After the device's loss: whether the task that was running has returned and the rest is
  /// discarded.
  [[nodiscard]] bool quiescent() const noexcept {
    return quiescent_.load(std::memory_order_acquire);
  }
  /// Queues the mark that makes `quiescent` true. Only the first call counts.
  void submit_quiescence() noexcept {
    if (quiescence_) submit(quiescence_.release());
  }
  /// The stream whose thread the calling thread is; null on other threads.
  [[nodiscard]] static host_stream* of_this_thread() noexcept;
  /// Stream thread only: whether it is inside a library.
  void set_in_library(bool inside) noexcept {
    in_library_.store(inside, std::memory_order_relaxed);
  }
  [[nodiscard]] bool in_library() const noexcept {
    return in_library_.load(std::memory_order_relaxed);
  }
  /// Whether the thread has left. Then the destructor does not block.
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

  /// Stream thread only: takes what failed since the last call.
  [[nodiscard]] std::optional<error> take_failure() noexcept {
    return std::exchange(failure_, std::nullopt);
  }
  /// Stream thread only: notes a failure for the next record.
  void fail(const error& why) noexcept {
    if (!failure_) failure_ = why;
  }
  [[nodiscard]] device& owner() noexcept { return owner_; }

 private:
  void run() noexcept;
  // What the marks do, on the stream's thread.
  void leave() noexcept { leaving_ = true; }
  void be_quiescent() noexcept { quiescent_.store(true, std::memory_order_release); }
  void execute(host_task& task) noexcept;
  void delay() noexcept;

  device& owner_;
  std::optional<host_jitter> jitter_;
  std::shared_ptr<fault_script> faults_;
  std::uint64_t random_state_;
  // Made with the stream, since neither its end nor a loss may want for memory; the queue's once
  // they are in it.
  std::unique_ptr<host_task> end_;
  std::unique_ptr<host_task> quiescence_;
  std::atomic<host_task*> newest_;  // producers' end
  host_task* oldest_;  // the thread's end: the task run last, kept as the list's anchor
  detail::one_way_signal signal_;
  std::optional<error> failure_;  // stream thread only
  bool leaving_ = false;          // stream thread only
  std::atomic<bool> quiescent_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> in_library_{false};
  std::thread thread_;
};

}  // namespace sluice::host
