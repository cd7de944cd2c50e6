// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/release_list.hpp"

#include <sluice/runtime/user_code_scope.hpp>

#include <chrono>
#include <limits>
#include <thread>
#include <utility>

namespace sluice::detail {
namespace {

// Bounds the wait, because a release on another thread may itself wait for the waiting thread.
constexpr auto longest_wait = std::chrono::seconds(10);

/// The drains that run on this thread, the innermost first.
struct drain_frame {
  const release_list* list;
  const drain_frame* outer;
};
thread_local const drain_frame* innermost = nullptr;

bool drains_here(const release_list& list) noexcept {
  for (const auto* frame = innermost; frame != nullptr; frame = frame->outer) {
    if (frame->list == &list) return true;
  }
  return false;
}

}  // namespace

/// Counts one drain. A nested drain of the same list is part of the outer one.
class release_list::drain_scope {
 public:
  explicit drain_scope(release_list& list) noexcept
      : frame_{&list, innermost}, counts_(!drains_here(list)) {
    if (counts_) {
      // Sequentially consistent: a drain that a waiter does not see takes its items after the
      // waiter's.
      parity_ = list.epoch_.load(std::memory_order_seq_cst) & 1U;
      list.draining_[parity_].fetch_add(1, std::memory_order_seq_cst);
    }
    innermost = &frame_;
    list_ = &list;
  }
  drain_scope(const drain_scope&) = delete;
  drain_scope& operator=(const drain_scope&) = delete;
  ~drain_scope() {
    innermost = frame_.outer;
    if (counts_) list_->draining_[parity_].fetch_sub(1, std::memory_order_release);
  }

 private:
  drain_frame frame_;
  bool counts_;
  std::uint32_t parity_ = 0;
  release_list* list_ = nullptr;
};

void release_list::chain::push(releasable* item) noexcept {
  item->next_released_ = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(item->next_released_, item, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

releasable* release_list::chain::take() noexcept {
  auto* item = newest_.exchange(nullptr, std::memory_order_acq_rel);
  releasable* oldest = nullptr;
  while (item != nullptr) {
    auto* next = std::exchange(item->next_released_, oldest);
    oldest = std::exchange(item, next);
  }
  return oldest;
}

void release_list::push(releasable* item) noexcept {
  size_.fetch_add(1, std::memory_order_relaxed);
  if (!drains_here(*this)) return inbox_.push(item);
  const std::lock_guard lock(taken_lock_);
  item->next_released_ = std::exchange(batch_, item);
  taken_any_.store(true, std::memory_order_relaxed);
}

void release_list::push_for_driver(releasable* item) noexcept {
  size_.fetch_add(1, std::memory_order_relaxed);
  driver_items_.push(item);
}

releasable* release_list::take_all() noexcept {
  return take_some(std::numeric_limits<std::size_t>::max());
}

releasable* release_list::take_some(std::size_t limit) noexcept {
  const std::lock_guard lock(taken_lock_);
  releasable* oldest = nullptr;
  auto** end = &oldest;
  while (limit != 0) {
    if (batch_ == nullptr) batch_ = inbox_.take();
    if (batch_ == nullptr) break;
    *end = batch_;
    for (; limit != 0 && batch_ != nullptr; --limit) {
      end = &batch_->next_released_;
      batch_ = *end;
    }
    *end = nullptr;
  }
  taken_any_.store(batch_ != nullptr, std::memory_order_relaxed);
  return oldest;
}

void release_list::release_chain(releasable* oldest) noexcept {
  if (oldest == nullptr) return;
  const user_code_scope users;  // the items' destructors are code of the program
  while (oldest != nullptr) release(std::exchange(oldest, oldest->next_released_));
}

void release_list::release(releasable* item) noexcept {
  item->release();
  size_.fetch_sub(1, std::memory_order_release);
}

void release_list::drain() noexcept {
  const drain_scope scope(*this);
  release_chain(take_all());
  release_chain(take_all());  // releases of the first round push blocks if this thread defers frees
  release_chain(driver_items_.take());
}

std::size_t release_list::drain_some(std::size_t limit) noexcept {
  const drain_scope scope(*this);
  auto* item = limit != 0 ? take_some(1) : nullptr;
  if (item == nullptr) return 0;
  const user_code_scope users;
  std::size_t released = 0;
  for (; item != nullptr; item = released < limit ? take_some(1) : nullptr) {
    release(item);
    ++released;
  }
  return released;
}

void release_list::drain_and_wait() noexcept {
  // The awaited drains may push items that only `drain` frees, hence the second round.
  for (int round = 0; round < 2; ++round) {
    drain();
    // A release does not wait for other threads, because they may wait for it.
    if (innermost != nullptr) return;
    wait_for_drains();
  }
}

void release_list::wait_for_drains() noexcept {
  using clock = std::chrono::steady_clock;
  const std::lock_guard one_waiter(wait_mutex_);
  const auto end = clock::now() + longest_wait;
  for (int flip = 0; flip < 2; ++flip) {
    const auto parity = epoch_.fetch_add(1, std::memory_order_seq_cst) & 1U;
    for (int round = 0; draining_[parity].load(std::memory_order_seq_cst) != 0; ++round) {
      if (round < 64) {
        std::this_thread::yield();
      } else if (clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      } else {
        return;
      }
    }
  }
}

bool release_list::rests() const noexcept {
  if (innermost != nullptr) return true;
  return draining_[0].load(std::memory_order_acquire) == 0 &&
         draining_[1].load(std::memory_order_acquire) == 0;
}

}  // namespace sluice::detail
