// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::detail {

/// The result of a request for a lease.
enum class lease_answer : std::uint8_t {
  granted,
  conflict,  ///< another launch holds the lease, or has precedence
  dying,     ///< the block has been freed
};

/// Whether a request for a lease lets waiting launches pass first.
enum class lease_request : std::uint8_t {
  yielding,  ///< waiting writers stop a reader, and a reservation stops every request
  barging,   ///< only a held lease stops it
};

/// The lease of one block: shared for launches that read it, exclusive for a launch that writes it,
/// held from preflight to commit.
///
///     if (lease.try_shared() == lease_answer::granted) {
///       // queue the waits, enqueue the work
///       if (lease.release_shared()) complete_the_free();
///     }
///
/// The word also records that the block is dying, so exactly one thread completes the free. If no
/// lease is held, it is the thread that frees the block. Otherwise it is the thread that returns
/// the last lease.
///
/// The lease counts waiting writers, and they keep new readers out. The owner of the turnstile
/// reserves the block that it waits for. Only threads that enqueue launches take leases and wait
/// for them.
///
/// The word is also the lock of the block's use state. Any thread may take that lock, for a few
/// dozen instructions. No other thread changes a locked word, so a commit publishes its use and
/// returns its lease with one atomic read-modify-write.
///
/// Thread-safe. docs/concepts/timelines_and_hazards.md explains the rules.
class lease {
 public:
  /// Requests a lease. Never waits for another lease.
  [[nodiscard]] lease_answer try_shared(lease_request request = lease_request::yielding) noexcept;
  [[nodiscard]] lease_answer try_exclusive(
      lease_request request = lease_request::yielding) noexcept;
  /// Returns a lease. The result is true if the block is dying and this was its last lease: the
  /// caller then completes the free.
  [[nodiscard]] bool release_shared() noexcept;
  [[nodiscard]] bool release_exclusive() noexcept;

  /// Locks the use state. The class meets *BasicLockable*.
  void lock() noexcept {
    auto word = word_.load(std::memory_order_relaxed);
    if ((word & locked_bit) != 0 ||
        !word_.compare_exchange_weak(word, word | locked_bit, std::memory_order_acquire,
                                     std::memory_order_relaxed))
      lock_contended();
  }
  void unlock() noexcept {
    word_.store(word_.load(std::memory_order_relaxed) & ~locked_bit, std::memory_order_release);
  }
  /// Unlocks the use state and returns a lease, like the functions above.
  [[nodiscard]] bool unlock_and_release_shared() noexcept;
  [[nodiscard]] bool unlock_and_release_exclusive() noexcept;

  /// Blocks while the same request would meet a conflict. It returns after each wake-up, even if
  /// another launch has taken the lease again. The caller can therefore count its failed attempts.
  void wait_shared(lease_request request = lease_request::yielding) noexcept;
  void wait_exclusive(lease_request request = lease_request::yielding) noexcept;
  /// Counts the caller as a waiting writer, until it holds all of its leases or waits for another
  /// block.
  /// Returns false if the count is full; the caller is not counted then.
  bool register_writer() noexcept;
  /// Ends `register_writer`, and wakes sleepers if the block is not being written.
  void withdraw_writer() noexcept;
  /// Reserves the block for the owner of the turnstile, which requests it by
  /// `lease_request::barging`. Only that thread calls this.
  void reserve() noexcept;
  /// Ends `reserve`, and wakes sleepers if the block is not being written.
  void end_reservation() noexcept;

  enum class end : std::uint8_t { complete_now, leased, dead_already };
  /// Marks the block as dying.
  [[nodiscard]] end mark_dying() noexcept;
  /// Whether the block has been marked as dying.
  [[nodiscard]] bool dying() const noexcept {
    return (word_.load(std::memory_order_acquire) & dying_bit) != 0;
  }
  /// Prepares the record for a new block.
  void revive() noexcept;
  /// The number of leases held, for statistics.
  [[nodiscard]] std::uint32_t held() const noexcept {
    const auto word = word_.load(std::memory_order_relaxed);
    return (word & readers_mask) + ((word & exclusive_bit) != 0 ? 1 : 0);
  }

 private:
  static constexpr std::uint32_t one_reader = 1;
  static constexpr std::uint32_t readers_mask = 0x3fff;
  static constexpr std::uint32_t one_writer_waiting = 0x4000;
  static constexpr std::uint32_t writers_waiting_mask = 0x07ff'c000;
  static constexpr std::uint32_t locked_bit = 0x0800'0000;  // the use state is locked
  static constexpr std::uint32_t reserved_bit = 0x1000'0000;
  static constexpr std::uint32_t sleepers_bit = 0x2000'0000;  // a thread sleeps on the word
  static constexpr std::uint32_t exclusive_bit = 0x4000'0000;
  static constexpr std::uint32_t dying_bit = 0x8000'0000;

  [[nodiscard]] static bool stops_reader(std::uint32_t word, lease_request request) noexcept {
    const auto waiting_bits =
        request == lease_request::barging ? 0U : writers_waiting_mask | reserved_bit;
    return (word & (exclusive_bit | waiting_bits)) != 0 || (word & readers_mask) == readers_mask;
  }
  [[nodiscard]] static bool stops_writer(std::uint32_t word, lease_request request) noexcept {
    const auto waiting_bits = request == lease_request::barging ? 0U : reserved_bit;
    return (word & (exclusive_bit | readers_mask | waiting_bits)) != 0;
  }
  /// Locks the use state, also if another thread holds the lock or changes the word.
  void lock_contended() noexcept;
  /// Waits until the word is unlocked, then replaces it by `changed(word)`, unless `refuses(word)`.
  /// Returns the previous word.
  template <class Refuses, class Changed>
  std::uint32_t change(Refuses refuses, Changed changed, std::memory_order order) noexcept;
  /// Like `change`, but never refuses. If `wakes(word)`, wakes the sleepers and clears their bit.
  template <class Wakes, class Changed>
  std::uint32_t change_and_wake(Wakes wakes, Changed changed, std::memory_order order) noexcept;
  template <class Stops>
  void wait_while(Stops stops) noexcept;

  std::atomic<std::uint32_t> word_{dying_bit};
};

}  // namespace sluice::detail
