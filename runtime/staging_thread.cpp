#include "runtime/staging_thread.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice::detail {

std::shared_ptr<staging_thread> staging_thread::start(std::shared_ptr<device> served) {
  const std::shared_ptr<staging_thread> made(new staging_thread(std::move(served)));
  made->thread_ = std::thread([made] { run(made); });
  return made;
}

staging_thread::~staging_thread() {
  for (auto* job = inbox_.load(std::memory_order_acquire); job != nullptr;) {
    delete std::exchange(job, job->next);
  }
}

void staging_thread::take(std::unique_ptr<staging_job> job) noexcept {
  auto* const taken = job.release();
  taken->next = inbox_.load(std::memory_order_relaxed);
  while (!inbox_.compare_exchange_weak(taken->next, taken, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  changed_.raise();
}

void staging_thread::stop() noexcept {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  changed_.raise();
  // Memory that a transfer owned may have dropped the last owner of the runtime.
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void staging_thread::run(const std::shared_ptr<staging_thread>& self) noexcept {
  using clock = std::chrono::steady_clock;
  constexpr auto spin = std::chrono::microseconds(50);
  constexpr auto shortest = std::chrono::microseconds(10);
  constexpr auto longest = std::chrono::microseconds(250);
  auto& s = *self;
  staging_job* oldest_jobs = nullptr;  // of each ring that has any
  auto pause = shortest;
  auto spin_end = clock::now() + spin;
  const auto changed = [&s] {
    return s.inbox_.load(std::memory_order_acquire) != nullptr ||
           s.stopping_.load(std::memory_order_acquire);
  };
  for (;;) {
    const bool stopping = s.stopping_.load(std::memory_order_acquire);
    s.take_inbox(oldest_jobs);
    if (s.advance(oldest_jobs)) {
      pause = shortest;
      spin_end = clock::now() + spin;
    } else if (oldest_jobs == nullptr) {
      if (stopping) return;
      s.changed_.wait(changed);
      pause = shortest;
      spin_end = clock::now() + spin;
    } else if (clock::now() < spin_end) {
      std::this_thread::yield();
    } else {
      s.changed_.wait_for(pause, changed);
      pause = std::min(pause * 2, longest);
    }
  }
}

void staging_thread::take_inbox(staging_job*& oldest_jobs) noexcept {
  staging_job* oldest = nullptr;
  for (auto* job = inbox_.exchange(nullptr, std::memory_order_acquire); job != nullptr;) {
    auto* const next = std::exchange(job->next, oldest);
    oldest = job;
    job = next;
  }
  while (oldest != nullptr) {
    auto* const job = std::exchange(oldest, oldest->next);
    auto* const before = std::exchange(job->ring->newest_, job);
    if (before != nullptr) {
      before->next_on_ring = job;
    } else {
      job->next = std::exchange(oldest_jobs, job);
    }
  }
}

bool staging_thread::advance(staging_job*& oldest_jobs) noexcept {
  const bool ended = device_->lost() || stopping_.load(std::memory_order_acquire);
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
    if (auto* const following = job->next_on_ring) {
      following->next = job->next;
      *link = following;
      link = &following->next;
    } else {
      *link = job->next;
      ring.newest_ = nullptr;
    }
    delete job;
  }
  return any;
}

}  // namespace sluice::detail
