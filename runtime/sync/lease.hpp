// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::detail {

/// What asking for a lease came to.
enum class lease_answer : std::uint8_t {
  granted,
  conflict,  ///< another launch between preflight and commit is in the way
  dying,     ///< the block has been freed
};

/// Whether a request for a lease lets launches that wait for the block go first.
enum class lease_request : std::uint8_t {
  yielding,  ///< waiting writers stop a reader, and a reservation stops everyone
  barging,   ///< only a lease that is held stops it
};

/// The lease of one block: shared by launches that read it, exclusive to one that writes it, held
/// from preflight to commit. The same word says whether the block is dying, so that exactly one
/// party completes its free: the one that frees it when no lease is held, else the one that returns
/// the last lease.
///
/// Waiting writers are counted and keep new readers out. The owner of the turnstile reserves the
/// block that it waits for. Only threads that enqueue launches take leases and wait for them.
///
/// The word is also the lock of the block's use state, which any thread takes for a few dozen
/// instructions. No other thread changes a locked word, so a commit publishes its use and returns
/// its lease with one atomic read-modify-write.
class lease {
 public:
  [[nodiscard]] lease_answer try_shared(lease_request request = lease_request::yielding) noexcept;
  [[nodiscard]] lease_answer try_exclusive(
      lease_request request = lease_request::yielding) noexcept;
  /// Returns a lease. True when the block is dying and this was its last lease: the caller
  /// completes the free.
  [[nodiscard]] bool release_shared() noexcept;
  [[nodiscard]] bool release_exclusive() noexcept;

  /// Locks the use state. Meets *BasicLockable*.
  void lock() noexcept;
  void unlock() noexcept {
    word_.store(word_.load(std::memory_order_relaxed) & ~locked_bit, std::memory_order_release);
  }
  /// `unlock` and one of the functions above.
  [[nodiscard]] bool unlock_and_release_shared() noexcept;
  [[nodiscard]] bool unlock_and_release_exclusive() noexcept;

  /// Blocks while the same request would meet a conflict, but returns after each wake-up, even if
  /// another launch holds the lease again by then, so that the caller can count how often others
  /// were faster.
  void wait_shared(lease_request request = lease_request::yielding) noexcept;
  void wait_exclusive(lease_request request = lease_request::yielding) noexcept;
  /// Counts the caller as a waiting writer until it has all of its leases or waits elsewhere.
  void register_writer() noexcept;
  void withdraw_writer() noexcept;
  /// Keeps the block for the owner of the turnstile, which asks for it by barging requests. No
  /// other thread calls this.
  void reserve() noexcept;
  void end_reservation() noexcept;

  enum class end : std::uint8_t { complete_now, leased, dead_already };
  /// Marks the block as dying.
  [[nodiscard]] end mark_dying() noexcept;
  [[nodiscard]] bool dying() const noexcept {
    return (word_.load(std::memory_order_acquire) & dying_bit) != 0;
  }
  /// The record is about to be used for a new block.
  void revive() noexcept;
  /// How many leases are held, for statistics.
  [[nodiscard]] std::uint32_t held() const noexcept {
    const auto word = word_.load(std::memory_order_relaxed);
    return (word & readers_mask) + ((word & exclusive_bit) != 0 ? 1 : 0);
  }

 private:
  static constexpr std::uint32_t one_reader = 1;
  static constexpr std::uint32_t readers_mask = 0x3fff;
  static constexpr std::uint32_t one_writer_waiting = 0x4000;
  static constexpr std::uint32_t writers_waiting_mask = 0x07ff'c000;
  static constexpr std::uint32_t locked_bit = 0x0800'0000;  // of the use state; the word is frozen
  static constexpr std::uint32_t reserved_bit = 0x1000'0000;
  static constexpr std::uint32_t sleepers_bit = 0x2000'0000;  // a thread sleeps until it is woken
  static constexpr std::uint32_t exclusive_bit = 0x4000'0000;
  static constexpr std::uint32_t dying_bit = 0x8000'0000;

  [[nodiscard]] static bool stops_reader(std::uint32_t word, lease_request request) noexcept {
    const auto waiting =
        request == lease_request::barging ? 0U : writers_waiting_mask | reserved_bit;
    return (word & (exclusive_bit | waiting)) != 0 || (word & readers_mask) == readers_mask;
  }
  [[nodiscard]] static bool stops_writer(std::uint32_t word, lease_request request) noexcept {
    const auto waiting = request == lease_request::barging ? 0U : reserved_bit;
    return (word & (exclusive_bit | readers_mask | waiting)) != 0;
  }
  /// Replaces the word, once it is not locked, by what `changed` makes of it, unless `refuses` it.
  /// Returns the word before.
  template <class Refuses, class Changed>
  std::uint32_t change(Refuses refuses, Changed changed, std::memory_order order) noexcept;
  /// The same, without exception. Wakes the sleepers, and clears their bit, if `wakes`.
  template <class Wakes, class Changed>
  std::uint32_t change_and_wake(Wakes wakes, Changed changed, std::memory_order order) noexcept;
  template <class Stops>
  void wait_while(Stops stops) noexcept;

  std::atomic<std::uint32_t> word_{dying_bit};
};

}  // namespace sluice::detail
