#include "runtime/sync/lease.hpp"

#include "runtime/sync/futex.hpp"
#include "runtime/sync/spin_lock.hpp"

namespace sluice::detail {

lease_answer lease::try_shared(lease_request request) noexcept {
  auto word = word_.load(std::memory_order_relaxed);
  for (;;) {
    if ((word & dying_bit) != 0) return lease_answer::dying;
    if (stops_reader(word, request)) return lease_answer::conflict;
    if (word_.compare_exchange_weak(word, word + one_reader, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return lease_answer::granted;
    }
  }
}

lease_answer lease::try_exclusive(lease_request request) noexcept {
  auto word = word_.load(std::memory_order_relaxed);
  for (;;) {
    if ((word & dying_bit) != 0) return lease_answer::dying;
    if (stops_writer(word, request)) return lease_answer::conflict;
    if (word_.compare_exchange_weak(word, word | exclusive_bit, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return lease_answer::granted;
    }
  }
}

bool lease::release_shared() noexcept {
  const auto before = word_.fetch_sub(one_reader, std::memory_order_acq_rel);
  const auto readers = before & readers_mask;
  // As long as there are other readers, no thread that sleeps can go on.
  if ((before & sleepers_bit) != 0 && (readers == one_reader || readers == readers_mask)) wake();
  return (before & dying_bit) != 0 && readers == one_reader;
}

bool lease::release_exclusive() noexcept {
  const auto before = word_.fetch_and(~exclusive_bit, std::memory_order_acq_rel);
  if ((before & sleepers_bit) != 0) wake();
  return (before & dying_bit) != 0;
}

template <class Stops>
void lease::wait_while(Stops stops) noexcept {
  const auto blocked = [&](std::uint32_t word) {
    return (word & dying_bit) == 0 && stops(word);
  };
  for (int spins = 0; spins < 200; ++spins) {
    if (!blocked(word_.load(std::memory_order_relaxed))) return;
    spin_pause();
  }
  auto word = word_.load(std::memory_order_relaxed);
  while (blocked(word)) {
    // Whoever changes the word so that a sleeper can go on sees the bit and calls `wake`.
    if ((word & sleepers_bit) != 0 ||
        word_.compare_exchange_weak(word, word | sleepers_bit, std::memory_order_relaxed)) {
      futex_wait(word_, word | sleepers_bit);
      return;
    }
  }
}

void lease::wake() noexcept {
  // A thread that goes to sleep meanwhile either finds the word changed or is notified.
  word_.fetch_and(~sleepers_bit, std::memory_order_relaxed);
  futex_wake_all(word_);
}

void lease::wait_shared(lease_request request) noexcept {
  wait_while([request](std::uint32_t word) { return stops_reader(word, request); });
}

void lease::wait_exclusive(lease_request request) noexcept {
  wait_while([request](std::uint32_t word) { return stops_writer(word, request); });
}

void lease::register_writer() noexcept {
  word_.fetch_add(one_writer_waiting, std::memory_order_relaxed);
}

void lease::withdraw_writer() noexcept {
  const auto before = word_.fetch_sub(one_writer_waiting, std::memory_order_relaxed);
  // While the block is written, its release wakes the sleepers.
  if ((before & sleepers_bit) != 0 && (before & exclusive_bit) == 0) wake();
}

void lease::reserve() noexcept {
  word_.fetch_or(reserved_bit, std::memory_order_relaxed);
}

void lease::end_reservation() noexcept {
  const auto before = word_.fetch_and(~reserved_bit, std::memory_order_relaxed);
  if ((before & sleepers_bit) != 0 && (before & exclusive_bit) == 0) wake();
}

lease::end lease::mark_dying() noexcept {
  const auto before = word_.fetch_or(dying_bit, std::memory_order_acq_rel);
  if ((before & sleepers_bit) != 0) wake();
  if ((before & dying_bit) != 0) return end::dead_already;
  return (before & (exclusive_bit | readers_mask)) != 0 ? end::leased : end::complete_now;
}

}  // namespace sluice::detail
