#pragma once

#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace sluice {

namespace detail {
class budget_account;
}

/// What the live blocks of one tag hold.
struct tagged_memory {
  std::string_view tag;
  std::size_t bytes = 0;  ///< as granted, which may be more than was asked for
  std::size_t blocks = 0;
};

/// A look at a budget. While others allocate, its parts are from about the same moment.
struct memory_budget_snapshot {
  std::size_t limit = 0;     ///< bytes; the largest number means no limit
  std::size_t held = 0;      ///< bytes taken from the device and not given back
  std::size_t reserved = 0;  ///< bytes set aside by reservations and not taken yet
  std::size_t peak = 0;      ///< the most that was held and reserved at a time
  /// Of `held`, what no live block has: what pools keep for later, and what waits for its last use.
  std::size_t kept = 0;
  std::vector<tagged_memory> tags;  ///< the live blocks, the largest sum first
};

/// How much memory of a device may be held at a time, by every runtime that is charged to it.
/// Thread-safe.
class memory_budget {
 public:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  explicit memory_budget(std::size_t limit = unlimited) noexcept : limit_(limit) {}
  memory_budget(const memory_budget&) = delete;
  memory_budget& operator=(const memory_budget&) = delete;

  /// The budget that all runtimes on `device` share unless told otherwise; without a limit at
  /// first.
  [[nodiscard]] static std::shared_ptr<memory_budget> of(device_id device);

  [[nodiscard]] std::size_t limit() const noexcept {
    return limit_.load(std::memory_order_relaxed);
  }
  /// From now on. What is held beyond a lower limit stays; there is no more until it has shrunk.
  void set_limit(std::size_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }
  [[nodiscard]] memory_budget_snapshot snapshot() const;

 private:
  friend class detail::budget_account;
  friend class memory_reservation;

  /// Charges `bytes`, if they fit under the limit.
  [[nodiscard]] bool try_charge(std::size_t bytes) noexcept;
  /// What is charged now counts for the peak: it was had, not only asked for.
  void note_peak() noexcept;
  void discharge(std::size_t bytes) noexcept {
    charged_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  void attach(std::shared_ptr<detail::budget_account> account);
  void detach(const detail::budget_account& account) noexcept;
  [[nodiscard]] std::size_t make_room() noexcept;

  std::atomic<std::size_t> limit_;
  std::atomic<std::size_t> charged_{0};  // held and reserved
  std::atomic<std::size_t> peak_{0};
  mutable std::mutex accounts_mutex_;
  std::vector<std::shared_ptr<detail::budget_account>> accounts_;
};

/// Bytes of a budget that are set aside for allocations to come (`device_runtime::reserve_memory`).
/// What is left goes back with it. Several threads may allocate from one at a time; moving it is
/// for one.
class memory_reservation {
 public:
  memory_reservation() noexcept = default;
  memory_reservation(memory_reservation&& other) noexcept
      : budget_(std::move(other.budget_)), left_(other.left_.exchange(0)) {}
  memory_reservation& operator=(memory_reservation&& other) noexcept {
    memory_reservation taken(std::move(other));
    release();
    budget_ = std::move(taken.budget_);
    left_.store(taken.left_.exchange(0));
    return *this;
  }
  ~memory_reservation() { release(); }

  /// Bytes that have not been used yet.
  [[nodiscard]] std::size_t left() const noexcept { return left_.load(std::memory_order_relaxed); }
  /// Gives back what is left.
  void release() noexcept;

  /// For resources: charges `bytes`. @throws error `over_budget`
  memory_reservation(std::shared_ptr<memory_budget> budget, std::size_t bytes);
  /// For resources: what it is of; nullptr where nothing limits what it is for.
  [[nodiscard]] const memory_budget* budget() const noexcept { return budget_.get(); }
  /// For resources: whether `bytes` were left; they are the caller's then, and stay charged.
  [[nodiscard]] bool take(std::size_t bytes) noexcept;
  /// For resources: takes back what `take` gave.
  void give(std::size_t bytes) noexcept { left_.fetch_add(bytes, std::memory_order_relaxed); }
  /// For resources: a reservation of its own from `bytes` that `take` gave.
  [[nodiscard]] memory_reservation part(std::size_t bytes) const noexcept {
    memory_reservation taken;
    taken.budget_ = budget_;
    taken.left_.store(bytes, std::memory_order_relaxed);
    return taken;
  }

 private:
  std::shared_ptr<memory_budget> budget_;
  std::atomic<std::size_t> left_{0};
};

/// Charges what resources under `upstream` take from the device to `budget`, or to the one of the
/// device when none is given, and live blocks to their tags. Beyond the limit it throws
/// `over_budget`, whose text names the bytes asked for, held and reserved, the limit, and what each
/// tag holds; the runtime gives back what pools keep, of all runtimes on the budget, and asks once
/// more before that reaches a user.
///
/// Memory that `async` gave back to the driver's own pool behind unfinished work no longer counts.
/// Resources under a budget must not look at it while they give memory back. When the device is
/// lost, what its runtime held is discharged with the resource. Under another
/// budget both are charged; reservations are of the outer one.
/// @throws error `invalid_argument` (no upstream)
[[nodiscard]] std::unique_ptr<memory_resource> make_budget_resource(
    std::unique_ptr<memory_resource> upstream, std::shared_ptr<memory_budget> budget = nullptr);

}  // namespace sluice
