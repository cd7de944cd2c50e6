// SPDX-License-Identifier: Apache-2.0
#include "service/arena/message_ring.hpp"

#include "service/arena/arena_fault.hpp"

#include <algorithm>
#include <atomic>

namespace sluice::service {
namespace {

using shared_word = std::atomic_ref<std::uint64_t>;
static_assert(shared_word::is_always_lock_free, "processes share no locks");

}  // namespace

// Each side keeps its own index in private memory and loads the index of the other side once for
// each check, so that no value of a hostile peer leads outside the slots.

bool ring_producer::push(std::uint64_t entry) {
  const auto capacity = ring_.slots.size();
  if (tail_ - head_ == capacity) {
    const auto head = shared_word(*ring_.head).load(std::memory_order_acquire);
    if (tail_ - head > capacity) throw arena_fault("a ring was read beyond its end");
    head_ = head;
    if (tail_ - head_ == capacity) return false;
  }
  shared_word(ring_.slots[tail_ & (capacity - 1)]).store(entry, std::memory_order_relaxed);
  // Sequentially consistent for the flag of wake_signal.
  shared_word(*ring_.tail).store(++tail_, std::memory_order_seq_cst);
  return true;
}

std::size_t ring_consumer::pop(std::span<std::uint64_t> entries) {
  const auto capacity = ring_.slots.size();
  const auto written = shared_word(*ring_.tail).load(std::memory_order_acquire) - head_;
  if (written > capacity) throw arena_fault("a ring was written beyond its capacity");
  const auto count = std::min<std::uint64_t>(written, entries.size());
  if (count == 0) return 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    entries[i] =
        shared_word(ring_.slots[(head_ + i) & (capacity - 1)]).load(std::memory_order_relaxed);
  }
  head_ += count;
  shared_word(*ring_.head).store(head_, std::memory_order_release);
  return count;
}

bool ring_consumer::is_empty() const noexcept {
  return shared_word(*ring_.tail).load(std::memory_order_seq_cst) == head_;
}

}  // namespace sluice::service
