// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice::host {

/// The chunks of a piece of work, which consists of items that cost about the same.
///
///     const work_chunks chunks(rows, nanoseconds_of_row);
///     parallel_for(chunks.count(), [&](std::int64_t i) {
///       const auto [begin, end] = chunks[i];
///       compute(begin, end);
///     });
///
/// The chunks depend on the arguments alone, so they are the same on every machine.
class work_chunks {
 public:
  /// Work of less time is one chunk. Publishing a job, waking a helper and waiting for its return
  /// took 3 to 7 us, and 0.3 us without an idle helper (medians, two cores of an Intel Xeon under
  /// load, 2026-11-27): less than 5 % of this time.
  static constexpr double least_nanoseconds = 200e3;
  /// The least time of a chunk. It also is how long a helper stays if a stream needs its processor.
  static constexpr double chunk_nanoseconds = 50e3;
  /// More chunks would not balance the load of threads any better.
  static constexpr std::int64_t max_chunks = 512;

  struct range {
    std::int64_t begin;
    std::int64_t end;
  };

  /// @param items        number of items
  /// @param nanoseconds  estimated time of one item on one thread
  /// @param multiple     all chunks but the last are a multiple of this number of items
  work_chunks(std::int64_t items, double nanoseconds, std::int64_t multiple = 1) noexcept
      : items_(items), size_(std::max<std::int64_t>(items, 1)) {
    const double total = static_cast<double>(items) * nanoseconds;
    if (total < least_nanoseconds) return;
    const double chunks = std::min(total / chunk_nanoseconds, static_cast<double>(max_chunks));
    const auto size = static_cast<std::int64_t>(static_cast<double>(items) / chunks) + 1;
    size_ = std::min((size + multiple - 1) / multiple * multiple, size_);
  }

  [[nodiscard]] std::int64_t count() const noexcept { return (items_ + size_ - 1) / size_; }
  [[nodiscard]] range operator[](std::int64_t chunk) const noexcept {
    return {chunk * size_, std::min((chunk + 1) * size_, items_)};
  }

 private:
  std::int64_t items_;
  std::int64_t size_;
};

/// The threads of a host device that help its streams with large tasks.
///
/// A stream's thread that has a large task publishes it as a job and computes chunks of it. Threads
/// of the pool, the helpers, take chunks of the same job while processors are idle. A pool of N
/// threads lets a helper take a chunk only if fewer than N threads work: helpers, and streams that
/// run a task. A helper looks again after each chunk, and leaves if a stream has begun a task in
/// between. So a busy stream shares its processor with a helper for one chunk at most. Idle helpers
/// sleep.
///
/// * *Results.* The caller chooses the chunks. Each runs once, on one thread; which thread it is
///   does not matter to a function whose chunks are independent.
/// * *Order.* A helper's chunk happens after the call of `run` begins and before it returns. This
///   order has no counterpart on a GPU and would hide missing waits between streams from
///   ThreadSanitizer, so in such builds a device's pool has no helpers.
/// * *Failure to start threads.* The helpers start with the first job. The pool works with those
///   that could be started, and does not try again. Without any, `run` is a loop.
/// * *Loss of the device.* A chunk is a part of a task, and a running task ends as usual. `run`
///   returns after the last helper has left the job, so a quiescent stream has no helpers.
/// * *Fork.* No thread of a device exists in the child, so none of its tasks runs there, and the
///   device of the parent is never destroyed in the child.
///
/// Thread-safe. No stream may be in `run` when the pool is destroyed; the destructor joins the
/// helpers.
class host_threads {
 public:
  using chunk_function = void (*)(const void* context, std::int64_t chunk);

  /// @param threads the number of threads that work at once; 1: there are no helpers
  explicit host_threads(int threads) noexcept : threads_(threads) {}
  host_threads(const host_threads&) = delete;
  host_threads& operator=(const host_threads&) = delete;
  ~host_threads();

  /// The number of processors that the process may use.
  [[nodiscard]] static int available_processors() noexcept;

  [[nodiscard]] int threads() const noexcept { return threads_; }

  /// Counts a stream that begins to run tasks. Orders no thread.
  void enter() noexcept { working_.fetch_add(1, std::memory_order_relaxed); }
  /// The stream runs no task any more. Wakes a helper if another stream's job waits for a
  /// processor.
  void leave() noexcept {
    working_.fetch_sub(1, std::memory_order_relaxed);
    if (open_jobs_.load(std::memory_order_relaxed) != 0) wake_one();
  }

  /// Calls `function(context, i)` once for each i in [0, chunks), on the calling thread and on
  /// helpers. The caller has entered.
  ///
  /// If a call throws, the chunks that have not begun are left out, and the first exception is
  /// rethrown after all begun chunks have ended. Allocates no memory once the helpers have started.
  void run(std::int64_t chunks, chunk_function function, const void* context);

 private:
  struct job;
  void start() noexcept;
  void help() noexcept;
  void work(job& current, bool helps) noexcept;
  [[nodiscard]] job* open_job() noexcept;
  [[nodiscard]] bool try_enter() noexcept;
  [[nodiscard]] int wakes_wanted(const job& current) const noexcept;
  void wake(int count) noexcept;
  void wake_one() noexcept;
  void fail(job& current) noexcept;

  const int threads_;
  // Relaxed, because it decides where a chunk runs and never whether. Streams touch it when they
  // fall idle and when they wake up.
  alignas(64) std::atomic<int> working_{0};
  std::atomic<int> open_jobs_{0};  // written under the mutex

  alignas(64) std::mutex mutex_;  // held for a few instructions, never while a chunk runs
  std::condition_variable work_available_;
  job* jobs_ = nullptr;
  int sleeping_ = 0;
  bool closing_ = false;
  std::atomic<bool> started_{false};
  std::vector<std::thread> helpers_;  // changed by the thread that sets `started_`
};

/// Calls `function(i)` once for each i in [0, chunks), in any order. In a task of a host stream,
/// idle threads of the device help; see `host_threads`. On other threads, helpers included, it is a
/// loop.
///
/// If chunks call a library, a `library_call_scope` encloses the call of this function: the exit of
/// the process waits for streams that are in a library, and does not know the helpers.
void run_chunks(std::int64_t chunks, host_threads::chunk_function function, const void* context);
template <class Function>
void parallel_for(std::int64_t chunks, const Function& function) {
  if (chunks == 1) {
    function(std::int64_t{0});
    return;
  }
  run_chunks(
      chunks,
      [](const void* context, std::int64_t chunk) {
        (*static_cast<const Function*>(context))(chunk);
      },
      &function);
}

}  // namespace sluice::host
