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

/// The lease of one block: shared by launches that read it, exclusive to one that writes it, held
/// from preflight to commit. In the same word stands whether the block is dying, so that exactly
/// one party completes its free: the one that frees it when no lease is held, else whoever returns
/// the last lease.
///
/// Writers that wait are counted and keep new readers out. Leases are taken and waited for by
/// enqueueing threads only.
class lease {
 public:
  /// `holds_others`: the thread holds leases already, so it may not wait, and waiting writers do
  /// not stop it.
  [[nodiscard]] lease_answer try_shared(bool holds_others = false) noexcept;
  [[nodiscard]] lease_answer try_exclusive() noexcept;
  /// Returns a lease. True when the block is dying and this was its last lease: the caller
  /// completes the free.
  [[nodiscard]] bool release_shared() noexcept;
  [[nodiscard]] bool release_exclusive() noexcept;

  /// Blocks while `try_shared` (or, for a writer, `try_exclusive`) would answer `conflict`. The
  /// caller holds no lease.
  void wait_shared() noexcept;
  void wait_exclusive() noexcept;
  /// A waiting writer announces itself until it has got all of its leases or waits elsewhere.
  void announce_writer() noexcept;
  void withdraw_writer() noexcept;

  enum class end : std::uint8_t { complete_now, leased, dead_already };
  /// Marks the block as dying.
  [[nodiscard]] end mark_dying() noexcept;
  [[nodiscard]] bool dying() const noexcept {
    return (word_.load(std::memory_order_acquire) & dying_bit) != 0;
  }
  /// The record is about to be used for a new block.
  void revive() noexcept { word_.fetch_and(~dying_bit, std::memory_order_release); }

 private:
  static constexpr std::uint32_t one_reader = 1;
  static constexpr std::uint32_t readers_mask = 0xffff;
  static constexpr std::uint32_t one_writer_waiting = 0x1'0000;
  static constexpr std::uint32_t writers_waiting_mask = 0x3fff'0000;
  static constexpr std::uint32_t exclusive_bit = 0x4000'0000;
  static constexpr std::uint32_t dying_bit = 0x8000'0000;

  template <class Blocked>
  void wait_while(Blocked blocked) noexcept;

  std::atomic<std::uint32_t> word_{dying_bit};
};

/// Counts the leases that one thread holds. A thread that holds one never waits for another.
/// Counters live as long as the process, so that a recorder which is destroyed on another thread
/// can still give its leases back.
class lease_holder {
 public:
  /// The calling thread's.
  [[nodiscard]] static lease_holder& of_this_thread();
  void add(std::uint32_t leases) noexcept { held_.fetch_add(leases, std::memory_order_relaxed); }
  void remove(std::uint32_t leases) noexcept { held_.fetch_sub(leases, std::memory_order_relaxed); }
  [[nodiscard]] bool holds_any() const noexcept {
    return held_.load(std::memory_order_relaxed) != 0;
  }

 private:
  std::atomic<std::uint32_t> held_{0};
};

}  // namespace sluice::detail
