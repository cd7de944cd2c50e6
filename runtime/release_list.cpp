#include "runtime/release_list.hpp"

namespace sluice::detail {

void release_list::push(releasable* item) noexcept {
  size_.fetch_add(1, std::memory_order_relaxed);
  item->next_released_ = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(item->next_released_, item, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

void release_list::drain() noexcept {
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
    size_.fetch_sub(1, std::memory_order_relaxed);
    oldest = next;
  }
}

}  // namespace sluice::detail
