// SPDX-License-Identifier: Apache-2.0
#include "runtime/staging/staging_thread.hpp"

#include "runtime/timelines/runtime_context.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice::detail {

namespace {

/// The inbox of a thread that has stopped points to this job. The first call may throw
/// std::bad_alloc.
staging_job* closed_inbox() {
  static auto& closed = *new staging_job;  // never destroyed
  return &closed;
}

// Constructed in advance, so that the end of a runtime needs no memory.
const error& transfers_unfinished =
    *new error(errc::shutting_down,
               "transfers were unfinished when the runtime was destroyed");  // never destroyed

}  // namespace

std::shared_ptr<staging_thread> staging_thread::start(runtime_context& context) {
  (void)closed_inbox();
  std::shared_ptr<staging_thread> thread(new staging_thread(context));
  thread->thread_ = std::thread([&served = *thread] { served.run(); });
  return thread;
}

bool staging_thread::take(std::unique_ptr<staging_job>& job) noexcept {
  jobs_.fetch_add(1, std::memory_order_relaxed);
  auto* newest = inbox_.load(std::memory_order_relaxed);
  do {
    if (newest == closed_inbox()) {
      jobs_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    job->next = newest;
  } while (!inbox_.compare_exchange_weak(newest, job.get(), std::memory_order_release,
                                         std::memory_order_relaxed));
  (void)job.release();
  changed_.raise();
  return true;
}

void staging_thread::stop() noexcept {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  changed_.raise();
  thread_.join();
}

void staging_thread::run() noexcept {
  using clock = std::chrono::steady_clock;
  constexpr auto spin = std::chrono::microseconds(50);
  constexpr auto shortest = std::chrono::microseconds(10);
  constexpr auto maximum = std::chrono::microseconds(250);
  staging_job* oldest_jobs = nullptr;  // the oldest job of each ring that has one
  auto pause = shortest;
  auto spin_end = clock::now() + spin;
  const auto changed = [this] {
    return inbox_.load(std::memory_order_acquire) != nullptr ||
           stopping_.load(std::memory_order_acquire);
  };
  for (;;) {
    const bool stopping = stopping_.load(std::memory_order_acquire);
    take_inbox(oldest_jobs, stopping ? closed_inbox() : nullptr);
    // An abandoned transfer moves no data, so its launch must not succeed.
    if (stopping && oldest_jobs != nullptr) context_.device().lose(transfers_unfinished);
    if (advance(oldest_jobs)) {
      pause = shortest;
      spin_end = clock::now() + spin;
    } else if (oldest_jobs == nullptr) {
      if (stopping) return;
      changed_.wait(changed);
      pause = shortest;
      spin_end = clock::now() + spin;
    } else if (clock::now() < spin_end) {
      std::this_thread::yield();
    } else {
      changed_.wait_for(pause, changed);
      pause = std::min(pause * 2, maximum);
    }
  }
}

void staging_thread::take_inbox(staging_job*& oldest_jobs, staging_job* end) noexcept {
  staging_job* oldest = nullptr;
  auto* job = inbox_.exchange(end, std::memory_order_acquire);
  if (job == closed_inbox()) return;
  while (job != nullptr) {
    auto* const next = std::exchange(job->next, oldest);
    oldest = job;
    job = next;
  }
  while (oldest != nullptr) {
    auto* const first = std::exchange(oldest, oldest->next);
    auto* const previous = std::exchange(first->ring->newest_, first);
    if (previous != nullptr) {
      previous->next_on_ring = first;
    } else {
      first->next = std::exchange(oldest_jobs, first);
    }
  }
}

bool staging_thread::advance(staging_job*& oldest_jobs) noexcept {
  const bool ended = context_.device().lost() || stopping_.load(std::memory_order_acquire);
  bool any = false;
  for (auto** link = &oldest_jobs; *link != nullptr;) {
    auto* const job = *link;
    auto& ring = *job->ring;
    if (ended) ring.abandon(*job);
    const auto progress = ended ? staging_ring::progress::finished : ring.advance(*job);
    any = any || progress != staging_ring::progress::none;
    if (progress != staging_ring::progress::finished) {
      link = &job->next;
      continue;
    }
    if (auto* const successor = job->next_on_ring) {
      successor->next = job->next;
      *link = successor;
      link = &successor->next;
    } else {
      *link = job->next;
      ring.newest_ = nullptr;
    }
    context_.release_later(job);
    jobs_.fetch_sub(1, std::memory_order_relaxed);
  }
  return any;
}

}  // namespace sluice::detail
