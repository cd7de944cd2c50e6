// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
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

/// The memory of the live blocks with one tag.
struct tagged_memory {
  std::string_view tag;    ///< the tag
  std::size_t bytes = 0;   ///< granted bytes, which may be more than the requested ones
  std::size_t blocks = 0;  ///< live blocks
};

/// The state of a budget.
///
/// If other threads allocate meanwhile, the values are from about the same instant.
struct memory_budget_snapshot {
  std::size_t limit = 0;     ///< in bytes; `memory_budget::unlimited` means no limit
  std::size_t held = 0;      ///< bytes taken from the device and not returned to it
  std::size_t reserved = 0;  ///< bytes that reservations hold and no allocation has taken
  std::size_t peak = 0;      ///< the largest sum of held and reserved bytes so far
  /// The part of `held` that has been freed and not returned: memory that pools and the device's
  /// own pool keep, and memory that unfinished work still uses. In bytes.
  std::size_t kept = 0;
  std::vector<tagged_memory> tags;  ///< live blocks, the largest sum first
};

/// A limit of the device memory that all runtimes charged to it hold together. Thread-safe.
///
///     memory_budget::of({device_kind::cuda, 0})->set_limit(std::size_t{8} << 30);
///
/// In a child of `fork()`, a budget of the parent refuses snapshots, reservations and new runtimes
/// with `device_lost`. The charged memory is the parent's, and a thread of the parent may have held
/// the lock. The child makes budgets of its own.
class SLUICE_EXPORT memory_budget {
 public:
  /// The limit that means "no limit".
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  /// Makes a budget of `limit` bytes.
  explicit memory_budget(std::size_t limit = unlimited) noexcept;
  memory_budget(const memory_budget&) = delete;
  memory_budget& operator=(const memory_budget&) = delete;

  /// The default budget of all runtimes on `device`. It initially has no limit.
  ///
  /// A child of `fork()` has separate budgets, without charges and limits.
  [[nodiscard]] static std::shared_ptr<memory_budget> of(device_id device);

  /// The limit, in bytes.
  [[nodiscard]] std::size_t limit() const noexcept {
    return limit_.load(std::memory_order_relaxed);
  }
  /// Sets the limit. A lower limit releases nothing, but it refuses new charges until the charged
  /// memory has shrunk below it.
  void set_limit(std::size_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }
  /// The current state of the budget.
  /// @throws error `device_lost` if the budget belongs to the parent process
  /// @throws std::bad_alloc if the host has no memory
  [[nodiscard]] memory_budget_snapshot snapshot() const;

 private:
  friend class detail::budget_account;
  friend class memory_reservation;

  /// @throws error `device_lost` in a child of `fork()`, for a budget of the parent
  void require_own_process() const;
  /// Charges `bytes` if they fit under the limit. Returns whether they did.
  [[nodiscard]] bool try_charge(std::size_t bytes) noexcept;
  /// Counts the current charge for the peak. Failed attempts do not reach it.
  void note_peak() noexcept;
  void discharge(std::size_t bytes) noexcept {
    // Release: the next charge of these bytes happens after the device got them back.
    charged_.fetch_sub(bytes, std::memory_order_release);
  }
  void attach(std::shared_ptr<detail::budget_account> account);
  void detach(const detail::budget_account& account) noexcept;
  using account_list = std::vector<std::shared_ptr<detail::budget_account>>;
  /// A copy of the accounts.
  /// @throws std::bad_alloc if the host has no memory
  [[nodiscard]] account_list accounts() const;
  void drop_owners() noexcept;
  [[nodiscard]] std::size_t make_room() noexcept;
  /// The bytes under the limit that neither live blocks nor reservations hold.
  [[nodiscard]] std::size_t max_obtainable() const noexcept;

  const std::uint32_t fork_depth_;
  std::atomic<std::size_t> limit_;
  std::atomic<std::size_t> charged_{0};  // held and reserved bytes
  std::atomic<std::size_t> peak_{0};
  mutable std::mutex accounts_mutex_;
  account_list accounts_;
};

/// Budget that is reserved for later allocations. See `device_runtime::reserve_memory`.
///
/// The destructor returns the unused part. Several threads may allocate from one reservation at a
/// time. Only one thread may move it or assign to it, and no other thread may use it meanwhile.
class SLUICE_EXPORT memory_reservation {
 public:
  memory_reservation() noexcept = default;
  memory_reservation(memory_reservation&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(other.bytes_.exchange(0)) {}
  memory_reservation& operator=(memory_reservation&& other) noexcept {
    memory_reservation source(std::move(other));
    release();
    budget_ = std::move(source.budget_);
    bytes_.store(source.bytes_.exchange(0));
    return *this;
  }
  ~memory_reservation() { release(); }

  /// The bytes that no allocation has used yet.
  [[nodiscard]] std::size_t left() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  /// Returns the unused part to the budget.
  void release() noexcept;

  /// For resources: charges `bytes` bytes to `budget`.
  /// @throws error `over_budget` if they do not fit
  /// @throws error `device_lost` if the budget belongs to the parent process
  memory_reservation(std::shared_ptr<memory_budget> budget, std::size_t bytes);
  /// For resources: the budget of the reservation; null if it is empty.
  [[nodiscard]] const memory_budget* budget() const noexcept { return budget_.get(); }
  /// For resources: takes `bytes` bytes if as many are left. Returns whether it did. They stay
  /// charged and belong to the caller.
  [[nodiscard]] bool take(std::size_t bytes) noexcept;
  /// For resources: takes back bytes of `take`.
  void give(std::size_t bytes) noexcept { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  /// For resources: makes a separate reservation from bytes of `take`.
  [[nodiscard]] memory_reservation part(std::size_t bytes) const noexcept {
    memory_reservation part;
    part.budget_ = budget_;
    part.bytes_.store(bytes, std::memory_order_relaxed);
    return part;
  }

 private:
  std::shared_ptr<memory_budget> budget_;
  std::atomic<std::size_t> bytes_{0};
};

/// Makes a resource that limits the memory of the resources below it.
///
///     auto budget = std::make_shared<memory_budget>(std::size_t{8} << 30);
///     device_runtime runtime{open_device("cuda"), {.resource = make_budget_resource(
///         make_pool_resource(make_async_resource()), budget)}};
///
/// A null `budget` stands for `memory_budget::of` the device.
///
/// A charge begins before the memory is taken from the device. It ends only after the device has it
/// back:
/// - `direct`: after the last use of the block, when the reclaim thread has freed it.
/// - `async`: after the device has reached the free and its own pool has been trimmed. Until then
///   the device's pool may hold the memory. An allocation of the same size takes over the charge if
///   it can use that memory. On the stream of the free it can do so at once. On other streams it
///   can do so after the free has been reached.
/// - A pool in between: kept memory stays charged. At the limit the pool returns only blocks that
///   no unfinished work uses. The others stay charged and serve their own stream without a wait.
///
/// Charges are rounded sizes: pools round, and so does `async` under a budget. Overhead of the
/// device itself is not charged. A GPU driver takes memory from the system in larger units and
/// keeps a unit while anything in it is allocated. If runtimes share a budget and open the device
/// separately, each has a device pool of its own, and the charges add up.
///
/// At the limit the runtime makes room and tries again: it destroys owners of completed launches
/// and releases unused kept memory, of all runtimes on the budget. Threads that serve no others
/// wait up to 100 ms for launches. If all kept memory would not suffice, nothing is released. The
/// text of `over_budget` names the requested, held, freed and reserved bytes, the limit, and the
/// bytes of each tag. docs/concepts/memory.md lists the steps.
///
/// If the device is lost, its memory stays charged until the resource is destroyed. A budget may
/// stand below another one: both are charged, and reservations belong to the outer one. A resource
/// below a budget must not access the budget while it returns memory.
/// @throws error `invalid_argument` if `upstream` is null
[[nodiscard]] SLUICE_EXPORT std::unique_ptr<memory_resource> make_budget_resource(
    std::unique_ptr<memory_resource> upstream, std::shared_ptr<memory_budget> budget = nullptr);

}  // namespace sluice
