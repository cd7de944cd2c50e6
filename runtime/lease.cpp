#include "runtime/lease.hpp"

#include "runtime/spin_lock.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace sluice::detail {

lease_answer lease::try_shared(bool holds_others) noexcept {
  const auto in_the_way = exclusive_bit | (holds_others ? 0U : writers_waiting_mask);
  auto word = word_.load(std::memory_order_relaxed);
  for (;;) {
    if ((word & dying_bit) != 0) return lease_answer::dying;
    if ((word & in_the_way) != 0 || (word & readers_mask) == readers_mask) {
      return lease_answer::conflict;
    }
    if (word_.compare_exchange_weak(word, word + one_reader, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return lease_answer::granted;
    }
  }
}

lease_answer lease::try_exclusive() noexcept {
  auto word = word_.load(std::memory_order_relaxed);
  for (;;) {
    if ((word & dying_bit) != 0) return lease_answer::dying;
    if ((word & (exclusive_bit | readers_mask)) != 0) return lease_answer::conflict;
    if (word_.compare_exchange_weak(word, word | exclusive_bit, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return lease_answer::granted;
    }
  }
}

bool lease::release_shared() noexcept {
  const auto before = word_.fetch_sub(one_reader, std::memory_order_acq_rel);
  word_.notify_all();
  return (before & dying_bit) != 0 && (before & readers_mask) == one_reader;
}

bool lease::release_exclusive() noexcept {
  const auto before = word_.fetch_and(~exclusive_bit, std::memory_order_acq_rel);
  word_.notify_all();
  return (before & dying_bit) != 0;
}

template <class Blocked>
void lease::wait_while(Blocked blocked) noexcept {
  for (int spins = 0; spins < 200; ++spins) {
    if (!blocked(word_.load(std::memory_order_relaxed))) return;
    spin_pause();
  }
  for (auto word = word_.load(std::memory_order_relaxed); blocked(word);
       word = word_.load(std::memory_order_relaxed)) {
    word_.wait(word, std::memory_order_relaxed);
  }
}

void lease::wait_shared() noexcept {
  wait_while([](std::uint32_t word) {
    return (word & dying_bit) == 0 && ((word & (exclusive_bit | writers_waiting_mask)) != 0 ||
                                       (word & readers_mask) == readers_mask);
  });
}

void lease::wait_exclusive() noexcept {
  wait_while([](std::uint32_t word) {
    return (word & dying_bit) == 0 && (word & (exclusive_bit | readers_mask)) != 0;
  });
}

void lease::announce_writer() noexcept {
  word_.fetch_add(one_writer_waiting, std::memory_order_relaxed);
}

void lease::withdraw_writer() noexcept {
  word_.fetch_sub(one_writer_waiting, std::memory_order_relaxed);
  word_.notify_all();
}

lease::end lease::mark_dying() noexcept {
  const auto before = word_.fetch_or(dying_bit, std::memory_order_acq_rel);
  word_.notify_all();
  if ((before & dying_bit) != 0) return end::dead_already;
  return (before & (exclusive_bit | readers_mask)) != 0 ? end::leased : end::complete_now;
}

lease_holder& lease_holder::of_this_thread() {
  // Counters of threads that have ended are used again by later threads.
  struct pool {
    std::mutex mutex;
    std::vector<std::unique_ptr<lease_holder>> all;
    std::vector<lease_holder*> unused;
  };
  static auto* const counters =
      new pool;  // never destroyed: threads may end after static destruction
  struct registration {
    lease_holder* counter = nullptr;
    registration() {
      const std::lock_guard lock(counters->mutex);
      if (counters->unused.empty()) {
        counters->unused.reserve(counters->all.size() + 1);
        counters->all.push_back(std::make_unique<lease_holder>());
        counter = counters->all.back().get();
      } else {
        counter = counters->unused.back();
        counters->unused.pop_back();
      }
    }
    registration(const registration&) = delete;
    registration& operator=(const registration&) = delete;
    ~registration() {
      const std::lock_guard lock(counters->mutex);
      if (!counter->holds_any()) counters->unused.push_back(counter);
    }
  };
  thread_local registration mine;
  return *mine.counter;
}

}  // namespace sluice::detail
