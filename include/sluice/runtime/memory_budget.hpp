// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
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
  std::string_view tag;    ///< the tag
  std::size_t bytes = 0;   ///< as granted, which may be more than was asked for
  std::size_t blocks = 0;  ///< live blocks
};

/// A look at a budget. While others allocate, its parts are from about the same moment.
struct memory_budget_snapshot {
  std::size_t limit = 0;     ///< bytes; the largest number means no limit
  std::size_t held = 0;      ///< bytes taken from the device and not given back to it
  std::size_t reserved = 0;  ///< bytes set aside by reservations and not taken yet
  std::size_t peak = 0;      ///< the most that was held and reserved at a time
  /// Of `held`, what has been freed and awaits release: what pools keep for later, the device's own
  /// included, and what unfinished work still uses.
  std::size_t kept = 0;
  std::vector<tagged_memory> tags;  ///< the live blocks, the largest sum first
};

/// How much memory of a device may be held at a time, by every runtime that is charged to it.
/// Thread-safe.
///
/// In a child of `fork()` a budget that the parent made refuses snapshots, reservations and new
/// runtimes with `device_lost`: what is charged is the parent's, and a thread of the parent may
/// have held its lock. A child makes budgets of its own.
class memory_budget {
 public:
  /// The limit that stands for no limit.
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  /// A budget of `limit` bytes.
  explicit memory_budget(std::size_t limit = unlimited) noexcept;
  memory_budget(const memory_budget&) = delete;
  memory_budget& operator=(const memory_budget&) = delete;

  /// The budget that all runtimes on `device` share unless told otherwise; without a limit at
  /// first. A forked child has budgets of its own, without charges and limits.
  [[nodiscard]] static std::shared_ptr<memory_budget> of(device_id device);

  /// The limit, in bytes.
  [[nodiscard]] std::size_t limit() const noexcept {
    return limit_.load(std::memory_order_relaxed);
  }
  /// From now on. What is held beyond a lower limit stays; there is no more until it has shrunk.
  void set_limit(std::size_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }
  /// The state of the budget.
  /// @throws error `device_lost` (the budget is the parent process's); std::bad_alloc
  [[nodiscard]] memory_budget_snapshot snapshot() const;

 private:
  friend class detail::budget_account;
  friend class memory_reservation;

  /// @throws error `device_lost` in a child of `fork()` to which the budget was handed down
  void require_own_process() const;
  /// Charges `bytes`, if they fit under the limit.
  [[nodiscard]] bool try_charge(std::size_t bytes) noexcept;
  /// What is charged now counts for the peak: it was had, not only asked for.
  void note_peak() noexcept;
  void discharge(std::size_t bytes) noexcept {
    // Release: for who charges them, the device has them back.
    charged_.fetch_sub(bytes, std::memory_order_release);
  }
  void attach(std::shared_ptr<detail::budget_account> account);
  void detach(const detail::budget_account& account) noexcept;
  using account_list = std::vector<std::shared_ptr<detail::budget_account>>;
  /// Of this moment. @throws std::bad_alloc
  [[nodiscard]] account_list accounts() const;
  void drop_owners() noexcept;
  [[nodiscard]] std::size_t make_room() noexcept;
  /// What is left beside live blocks and reservations.
  [[nodiscard]] std::size_t most_obtainable() const noexcept;

  const std::uint32_t fork_depth_;
  std::atomic<std::size_t> limit_;
  std::atomic<std::size_t> charged_{0};  // held and reserved
  std::atomic<std::size_t> peak_{0};
  mutable std::mutex accounts_mutex_;
  account_list accounts_;
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

  /// For resources: charges `bytes`. @throws error `over_budget`; `device_lost` (the budget is the
  /// parent process's)
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

/// Limits the memory that the resources under `upstream` hold to what `budget` allows, or to the
/// budget of the device when none is given.
///
///     auto budget = std::make_shared<memory_budget>(std::size_t{8} << 30);
///     device_runtime runtime{open_device("cuda"), {.resource = make_budget_resource(
///         make_pool_resource(make_async_resource()), budget)}};
///
/// A charge begins before the memory is taken from the device, and ends only after the device has
/// it back:
/// - `direct`: when the reclaim thread has freed the block, after its last use.
/// - `async`: when the device has reached the free and its own pool has been trimmed. Until then
///   the device's pool may hold the memory. An allocation of the same size takes the charge over
///   if it can use that memory: on the stream of the free at once, elsewhere once the free has been
///   reached.
/// - A pool in between: what it keeps stays charged. It gives back only blocks that no unfinished
///   work uses. Blocks that are in use stay charged and serve their own stream without a wait.
///
/// Sizes are charged as pools round them (`async` rounds as well under a budget). What the device
/// itself adds is not charged: a GPU's driver takes memory from the system in units of its own and
/// keeps such a unit while anything in it is allocated. Where runtimes share a budget and open the
/// device separately, each has a device pool of its own, and the charges add up.
///
/// At the limit the runtime drops the owners of completed launches, releases what is kept by all
/// runtimes on the budget and no longer used, and tries once more. It waits for no launch. A
/// request that would not fit even if everything kept were given back releases nothing. The text
/// of `over_budget` names the bytes asked for, held, freed but not yet released, and reserved, the
/// limit, and what each tag holds.
///
/// When the device is lost, its memory stays charged until the resource is destroyed. Resources
/// under a budget must not look at it while they give memory back. Under another budget both are
/// charged; reservations are of the outer one.
/// @throws error `invalid_argument` (no upstream)
[[nodiscard]] std::unique_ptr<memory_resource> make_budget_resource(
    std::unique_ptr<memory_resource> upstream, std::shared_ptr<memory_budget> budget = nullptr);

}  // namespace sluice
