// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/host_threads.hpp"

#include "runtime/host/host_stream.hpp"

#include <sched.h>
#include <utility>

namespace sluice::host {

/// The chunks of one call of `run`, on the caller's stack. The mutex of the pool protects what is
/// not atomic.
struct host_threads::job {
  chunk_function function;
  const void* context;
  std::int64_t chunks;
  std::atomic<std::int64_t> next{0};  // the first chunk that nobody has taken
  std::atomic<int> helpers{0};        // changed under the mutex
  bool is_waiting = false;            // whether the caller sleeps until `helpers` is 0
  std::condition_variable last_left{};
  std::exception_ptr failure{};
  job* following = nullptr;

  [[nodiscard]] bool has_chunks() const noexcept {
    return next.load(std::memory_order_relaxed) < chunks;
  }
};

int host_threads::available_processors() noexcept {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More processors than the set has room for.
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

host_threads::~host_threads() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  work_available_.notify_all();
  for (auto& helper : helpers_) helper.join();
}

void host_threads::run(std::int64_t chunks, chunk_function function, const void* context) {
  if (threads_ <= 1 || chunks <= 1) {
    for (std::int64_t i = 0; i < chunks; ++i) function(context, i);
    return;
  }
  if (!started_.load(std::memory_order_relaxed)) start();

  job published{.function = function, .context = context, .chunks = chunks};
  int wakes = 0;
  {
    const std::lock_guard lock(mutex_);
    published.following = std::exchange(jobs_, &published);
    open_jobs_.fetch_add(1, std::memory_order_relaxed);
    wakes = wakes_wanted(published);
  }
  wake(wakes);
  work(published, false);

  // Helpers that are in their last chunk need no longer than a chunk.
  for (int spins = 0; spins < 1000; ++spins) {
    if (published.helpers.load(std::memory_order_relaxed) == 0) break;
  }
  std::unique_lock lock(mutex_);
  auto** link = &jobs_;
  while (*link != &published) link = &(*link)->following;
  *link = published.following;
  open_jobs_.fetch_sub(1, std::memory_order_relaxed);
  published.is_waiting = true;
  published.last_left.wait(lock,
                           [&] { return published.helpers.load(std::memory_order_relaxed) == 0; });
  lock.unlock();
  if (published.failure) std::rethrow_exception(std::move(published.failure));
}

void host_threads::start() noexcept {
  if (started_.exchange(true, std::memory_order_relaxed)) return;
  try {
    const auto count = static_cast<std::size_t>(threads_ - 1);
    helpers_.reserve(count);
    while (helpers_.size() < count) helpers_.emplace_back([this] { help(); });
  } catch (...) {
    // The system has no more threads, or no memory for one.
  }
}

void host_threads::help() noexcept {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    auto* const current = open_job();
    if (current == nullptr || !try_enter()) {
      ++sleeping_;
      work_available_.wait(lock);
      --sleeping_;
      continue;
    }
    current->helpers.fetch_add(1, std::memory_order_relaxed);
    const int wakes = wakes_wanted(*current);
    lock.unlock();
    // Each helper wakes two others, because to wake all would take one thread long.
    wake(wakes);
    work(*current, true);
    lock.lock();
    working_.fetch_sub(1, std::memory_order_relaxed);
    // Under the mutex: once the caller sees the last helper leave, the job is gone.
    if (current->helpers.fetch_sub(1, std::memory_order_relaxed) == 1 && current->is_waiting) {
      current->last_left.notify_one();
    }
  }
}

void host_threads::work(job& current, bool helps) noexcept {
  for (;;) {
    if (helps && working_.load(std::memory_order_relaxed) > threads_) return;
    const auto chunk = current.next.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= current.chunks) return;
    try {
      current.function(current.context, chunk);
    } catch (...) {
      fail(current);
    }
  }
}

void host_threads::fail(job& current) noexcept {
  current.next.store(current.chunks, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (!current.failure) current.failure = std::current_exception();
}

host_threads::job* host_threads::open_job() noexcept {
  job* chosen = nullptr;
  for (auto* candidate = jobs_; candidate != nullptr; candidate = candidate->following) {
    if (!candidate->has_chunks()) continue;
    const auto helpers = candidate->helpers.load(std::memory_order_relaxed);
    if (chosen == nullptr || helpers < chosen->helpers.load(std::memory_order_relaxed)) {
      chosen = candidate;
    }
  }
  return chosen;
}

bool host_threads::try_enter() noexcept {
  auto working = working_.load(std::memory_order_relaxed);
  while (working < threads_) {
    if (working_.compare_exchange_weak(working, working + 1, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

int host_threads::wakes_wanted(const job& current) const noexcept {
  const auto idle = threads_ - working_.load(std::memory_order_relaxed);
  return current.has_chunks() ? std::clamp(std::min(idle, sleeping_), 0, 2) : 0;
}

void host_threads::wake(int count) noexcept {
  for (int i = 0; i < count; ++i) work_available_.notify_one();
}

void host_threads::wake_one() noexcept {
  // With the mutex, because a helper may have found all processors busy and not sleep yet.
  const std::lock_guard lock(mutex_);
  work_available_.notify_one();
}

void run_chunks(std::int64_t chunks, host_threads::chunk_function function, const void* context) {
  if (auto* const stream = host_stream::of_this_thread()) {
    stream->threads().run(chunks, function, context);
    return;
  }
  for (std::int64_t i = 0; i < chunks; ++i) function(context, i);
}

}  // namespace sluice::host
