#include "runtime/release_list.hpp"

#include <mutex>

namespace sluice::detail {
namespace {

/// What this thread is draining, the innermost first.
struct drain_frame {
  const release_list* list;
  const drain_frame* outer;
};
thread_local const drain_frame* innermost = nullptr;

}  // namespace

void release_list::push(releasable* item) noexcept {
  size_.fetch_add(1, std::memory_order_relaxed);
  item->next_released_ = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(item->next_released_, item, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

void release_list::drain() noexcept {
  std::shared_lock lock(draining_, std::defer_lock);
  const drain_frame* frame = innermost;
  while (frame != nullptr && frame->list != this) frame = frame->outer;
  if (frame == nullptr) lock.lock();
  const drain_frame mine{this, innermost};
  innermost = &mine;
  auto* item = newest_.exchange(nullptr, std::memory_order_acquire);
  releasable* oldest = nullptr;
  while (item != nullptr) {
    auto* next = item->next_released_;
    item->next_released_ = oldest;
    oldest = item;
    item = next;
  }
  while (oldest != nullptr) {
    auto* next = oldest->next_released_;
    delete oldest;
    size_.fetch_sub(1, std::memory_order_release);
    oldest = next;
  }
  innermost = mine.outer;
}

void release_list::drain_and_wait() noexcept {
  drain();
  // Who destroys something does not wait for others, who may wait for it.
  if (innermost == nullptr) const std::lock_guard wait(draining_);
}

bool release_list::rests() noexcept {
  if (innermost != nullptr) return true;
  const std::unique_lock none(draining_, std::try_to_lock);
  return none.owns_lock();
}

}  // namespace sluice::detail
