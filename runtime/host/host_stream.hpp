// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/host/host_threads.hpp"
#include "runtime/host/host_timestamp.hpp"
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

/// An event of the host device: the newest value that was recorded, and the newest that a stream's
/// thread has reached. Each event has its own flag, and a wait acquires only that flag. The
/// happens-before edges are therefore exactly those of a GPU.
class host_event {
 public:
  /// Adds a share. An event is constructed with one; each queued task that uses it holds another.
  /// Adding a share orders no thread. Dropping one orders only the thread that destroys the event.
  void hold() noexcept { shares_.fetch_add(1, std::memory_order_relaxed); }
  void let_go() noexcept {
    if (shares_.fetch_sub(1, std::memory_order_release) != 1) return;
    (void)shares_.load(std::memory_order_acquire);
    delete this;
  }
  /// Whether a record is queued that no stream has reached.
  [[nodiscard]] bool pending() const noexcept {
    return reached_value_.load(std::memory_order_relaxed) / 2 <
           newest_value_.load(std::memory_order_relaxed);
  }

  /// Notes that a record with `value` is about to be queued. For the submitting thread.
  void mark_recorded(std::uint64_t value) noexcept {
    newest_value_.store(value, std::memory_order_relaxed);
  }
  [[nodiscard]] bool was_recorded(std::uint64_t value) const noexcept {
    return newest_value_.load(std::memory_order_relaxed) >= value;
  }

  /// Notes that the record with `value` has been reached. `failure` is the failure since the
  /// previous record, if any. For the stream's thread.
  void reach(std::uint64_t value, std::optional<error> failure) noexcept;
  [[nodiscard]] event_state state(std::uint64_t value) const noexcept;
  void acquire() const noexcept { (void)reached_value_.load(std::memory_order_acquire); }
  /// Blocks until the record with `value` is reached or the device is lost.
  void wait(std::uint64_t value, const device& owner) noexcept;
  /// Waits for at most about `timeout`. Returns whether the record was reached or the device was
  /// lost.
  [[nodiscard]] bool wait_for(std::uint64_t value, const device& owner,
                              std::chrono::nanoseconds timeout) noexcept;
  /// Wakes the waiters, which then check for the loss of the device.
  void wake() noexcept { signal_.raise(); }
  [[nodiscard]] error failure() const;

 private:
  std::atomic<std::uint32_t> shares_{1};
  std::atomic<std::uint64_t> newest_value_{0};
  std::atomic<std::uint64_t> reached_value_{0};  // value * 2, plus 1 if the work before it failed
  detail::one_way_signal signal_;
  std::optional<error> failure_;  // written before `reached_value_`, read after acquiring it
};

/// One task in a stream's queue.
class host_task {
 public:
  enum class kind : std::uint8_t {
    work,
    marker
  };  // markers (records, waits) have no delay, never fail, and run after a loss

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

/// A task that calls a callable.
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
/// Submission is one-way. The queue is a list: a submitting thread stores a link with release
/// order, and the stream's thread loads it with acquire order. The stream's thread writes nothing
/// that a submitting thread reads. Submitting therefore orders no thread after finished work.
class host_stream {
 public:
  /// @param threads help with large tasks; must outlive the stream
  host_stream(device& owner, std::uint64_t number, const host_device_options& options,
              host_threads& threads);
  host_stream(const host_stream&) = delete;
  host_stream& operator=(const host_stream&) = delete;
  /// Joins the thread after the queued work has run.
  ~host_stream();

  /// Queues `task` and takes ownership of it. Callable from any thread. Tasks of one thread keep
  /// their order.
  void submit(host_task* task) noexcept;
  /// Queues `task` as a launch or a copy, to which the fault script applies.
  void submit_counted(host_task* task, fault_target target) noexcept;
  /// Queues the end: the thread exits after the work before it. Only the first call has an effect.
  /// The caller serializes calls of this function, `ending` and `submit_quiescence`.
  void stop() noexcept {
    if (end_) submit(end_.release());
  }
  /// Whether the end has been queued.
  [[nodiscard]] bool ending() const noexcept { return end_ == nullptr; }
  /// Whether the running task has returned and the rest has been discarded, after the loss of the
  /// device.
  [[nodiscard]] bool quiescent() const noexcept {
    return quiescent_.load(std::memory_order_acquire);
  }
  /// Queues the marker that makes `quiescent` true. Only the first call has an effect.
  void submit_quiescence() noexcept {
    if (quiescence_) submit(quiescence_.release());
  }
  /// The stream whose thread is the calling one, or nullptr.
  [[nodiscard]] static host_stream* of_this_thread() noexcept;
  /// Takes the time of a record of a timestamp. Marks belong to the last one. For the stream's
  /// thread.
  void take(host_timestamp& stamp, std::uint32_t record) noexcept {
    stamp.hold();
    if (last_stamp_ != nullptr) last_stamp_->let_go();
    last_stamp_ = &stamp;
    last_record_ = record;
    stamp.take(record);
  }
  /// Marks the current time behind the last timestamp, if there is one. For the stream's thread.
  void mark_time() noexcept {
    if (last_stamp_ != nullptr) last_stamp_->mark(last_record_);
  }
  /// Notes that the thread enters or leaves a library call; calls may be nested. For the stream's
  /// thread.
  void note_library_call(bool entered) noexcept {
    const int calls = library_calls_.load(std::memory_order_relaxed) + (entered ? 1 : -1);
    library_calls_.store(calls, std::memory_order_relaxed);
  }
  [[nodiscard]] bool in_library() const noexcept {
    return library_calls_.load(std::memory_order_relaxed) != 0;
  }
  /// Whether the thread has exited. The destructor then does not block.
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

  /// Takes the failure since the last call. For the stream's thread.
  [[nodiscard]] std::optional<error> take_failure() noexcept {
    return std::exchange(failure_, std::nullopt);
  }
  /// Notes a failure for the next record. For the stream's thread.
  void fail(const error& failure) noexcept {
    if (!failure_) failure_ = failure;
  }
  [[nodiscard]] device& owner() noexcept { return owner_; }
  [[nodiscard]] host_threads& threads() noexcept { return threads_; }
  /// Notes that the thread begins to compute, or stops to. For the stream's thread.
  void set_computing(bool computing) noexcept {
    if (computing == computing_) return;
    computing_ = computing;
    if (computing) {
      threads_.enter();
    } else {
      threads_.leave();
    }
  }

 private:
  void run() noexcept;
  // The effects of the marker tasks, on the stream's thread.
  void leave() noexcept { leaving_ = true; }
  void be_quiescent() noexcept { quiescent_.store(true, std::memory_order_release); }
  void execute(host_task& task) noexcept;
  void delay() noexcept;

  device& owner_;
  host_threads& threads_;
  std::optional<host_jitter> jitter_;
  std::shared_ptr<fault_script> faults_;
  std::uint64_t random_state_;
  // Constructed with the stream, because neither its end nor a loss may need memory. Submitting one
  // moves it into the queue.
  std::unique_ptr<host_task> end_;
  std::unique_ptr<host_task> quiescence_;
  std::atomic<host_task*> newest_;  // the submitting threads' end
  host_task* oldest_;  // the thread's end: the last task run, kept as the list's anchor
  detail::one_way_signal signal_;
  std::optional<error> failure_;          // used only by the stream's thread
  host_timestamp* last_stamp_ = nullptr;  // used only by the stream's thread; a share
  std::uint32_t last_record_ = 0;         // of the timestamp
  bool leaving_ = false;                  // used only by the stream's thread
  bool computing_ = false;                // used only by the stream's thread
  std::atomic<bool> quiescent_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<int> library_calls_{0};  // open ones
  std::thread thread_;
};

}  // namespace sluice::host
