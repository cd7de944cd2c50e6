// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/lease.hpp"

#include "runtime/sync/futex.hpp"
#include "runtime/sync/spin_lock.hpp"

#include <thread>

namespace sluice::detail {

namespace {

/// Backoff while another thread holds the lock: pauses, and yields after 64 rounds.
void back_off(int& round) noexcept {
  if (round++ < 64) {
    spin_pause();
  } else {
    std::this_thread::yield();
  }
}

}  // namespace

template <class Refuses, class Changed>
std::uint32_t lease::change(Refuses refuses, Changed changed, std::memory_order order) noexcept {
  auto word = word_.load(std::memory_order_relaxed);
  for (int round = 0;;) {
    if (refuses(word)) return word;
    if ((word & locked_bit) != 0) {
      back_off(round);
      word = word_.load(std::memory_order_relaxed);
    } else if (word_.compare_exchange_weak(word, changed(word), order, std::memory_order_relaxed)) {
      return word;
    }
  }
}

template <class Wakes, class Changed>
std::uint32_t lease::change_and_wake(Wakes wakes, Changed changed,
                                     std::memory_order order) noexcept {
  const auto wakes_sleepers = [wakes](std::uint32_t word) {
    return (word & sleepers_bit) != 0 && wakes(word);
  };
  const auto previous = change([](std::uint32_t) { return false; },
                               [&](std::uint32_t word) {
                                 return changed(wakes_sleepers(word) ? word & ~sleepers_bit : word);
                               },
                               order);
  // A thread about to sleep finds the word changed, or is woken.
  if (wakes_sleepers(previous)) futex_wake_all(word_);
  return previous;
}

lease_answer lease::try_shared(lease_request request) noexcept {
  const auto refuses = [request](std::uint32_t word) {
    return (word & dying_bit) != 0 || stops_reader(word, request);
  };
  const auto word = change(
      refuses, [](std::uint32_t w) { return w + one_reader; }, std::memory_order_acquire);
  if ((word & dying_bit) != 0) return lease_answer::dying;
  return refuses(word) ? lease_answer::conflict : lease_answer::granted;
}

lease_answer lease::try_exclusive(lease_request request) noexcept {
  const auto refuses = [request](std::uint32_t word) {
    return (word & dying_bit) != 0 || stops_writer(word, request);
  };
  const auto word = change(
      refuses, [](std::uint32_t w) { return w | exclusive_bit; }, std::memory_order_acquire);
  if ((word & dying_bit) != 0) return lease_answer::dying;
  return refuses(word) ? lease_answer::conflict : lease_answer::granted;
}

bool lease::release_shared() noexcept {
  lock();
  return unlock_and_release_shared();
}

bool lease::release_exclusive() noexcept {
  lock();
  return unlock_and_release_exclusive();
}

void lease::lock_contended() noexcept {
  (void)change([](std::uint32_t) { return false; },
               [](std::uint32_t word) { return word | locked_bit; }, std::memory_order_acquire);
}

bool lease::unlock_and_release_shared() noexcept {
  const auto previous = word_.load(std::memory_order_relaxed);
  const auto readers = previous & readers_mask;
  // While other readers remain, no sleeper can make progress.
  const bool wakes =
      (previous & sleepers_bit) != 0 && (readers == one_reader || readers == readers_mask);
  const auto cleared = wakes ? locked_bit | sleepers_bit : locked_bit;
  word_.store((previous - one_reader) & ~cleared, std::memory_order_release);
  if (wakes) futex_wake_all(word_);
  return (previous & dying_bit) != 0 && readers == one_reader;
}

bool lease::unlock_and_release_exclusive() noexcept {
  const auto previous = word_.load(std::memory_order_relaxed);
  word_.store(previous & ~(locked_bit | exclusive_bit | sleepers_bit), std::memory_order_release);
  if ((previous & sleepers_bit) != 0) futex_wake_all(word_);
  return (previous & dying_bit) != 0;
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
  const auto word =
      change([&](std::uint32_t w) { return !blocked(w); },
             [](std::uint32_t w) { return w | sleepers_bit; }, std::memory_order_relaxed);
  // A thread that unblocks a sleeper sees the bit and wakes it. The wait also ends if another
  // thread has locked the use state; that costs the caller one attempt.
  if (blocked(word)) futex_wait(word_, word | sleepers_bit);
}

void lease::wait_shared(lease_request request) noexcept {
  wait_while([request](std::uint32_t word) { return stops_reader(word, request); });
}

void lease::wait_exclusive(lease_request request) noexcept {
  wait_while([request](std::uint32_t word) { return stops_writer(word, request); });
}

bool lease::register_writer() noexcept {
  const auto is_full = [](std::uint32_t word) {
    return (word & writers_waiting_mask) == writers_waiting_mask;
  };
  return !is_full(change(
      is_full, [](std::uint32_t word) { return word + one_writer_waiting; },
      std::memory_order_relaxed));
}

void lease::withdraw_writer() noexcept {
  // While the block is written, the release of the exclusive lease wakes the sleepers.
  (void)change_and_wake([](std::uint32_t word) { return (word & exclusive_bit) == 0; },
                        [](std::uint32_t word) { return word - one_writer_waiting; },
                        std::memory_order_relaxed);
}

void lease::reserve() noexcept {
  (void)change([](std::uint32_t) { return false; },
               [](std::uint32_t word) { return word | reserved_bit; }, std::memory_order_relaxed);
}

void lease::end_reservation() noexcept {
  (void)change_and_wake([](std::uint32_t word) { return (word & exclusive_bit) == 0; },
                        [](std::uint32_t word) { return word & ~reserved_bit; },
                        std::memory_order_relaxed);
}

lease::end lease::mark_dying() noexcept {
  const auto previous = change_and_wake([](std::uint32_t) { return true; },
                                        [](std::uint32_t word) { return word | dying_bit; },
                                        std::memory_order_acq_rel);
  if ((previous & dying_bit) != 0) return end::dead_already;
  return (previous & (exclusive_bit | readers_mask)) != 0 ? end::leased : end::complete_now;
}

void lease::revive() noexcept {
  (void)change([](std::uint32_t) { return false; },
               [](std::uint32_t word) { return word & ~dying_bit; }, std::memory_order_release);
}

}  // namespace sluice::detail
