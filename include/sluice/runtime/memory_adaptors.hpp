// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/fault_countdown.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace sluice {

/// A quantity over the life of its resource.
struct memory_counter {
  std::size_t current = 0;  ///< value now
  std::size_t peak = 0;     ///< the largest value of `current` so far
  std::size_t total = 0;    ///< the sum of everything allocated
  [[nodiscard]] bool operator==(const memory_counter&) const noexcept = default;
};

/// Counters of a statistics resource.
struct memory_counters {
  memory_counter bytes;        ///< granted bytes, which may be more than the requested ones
  memory_counter allocations;  ///< granted allocations
  [[nodiscard]] bool operator==(const memory_counters&) const noexcept = default;
};

/// The change of a quantity since the beginning of a scope.
///
/// Frees count also for memory that was allocated before the scope.
struct memory_change {
  std::ptrdiff_t current = 0;  ///< allocated minus freed; may be negative
  std::size_t peak = 0;        ///< the largest value of `current`, at least 0
  std::size_t total = 0;       ///< the sum of everything allocated
  [[nodiscard]] bool operator==(const memory_change&) const noexcept = default;
};

/// The counters of a `memory_statistics::scope`.
struct memory_changes {
  memory_change bytes;        ///< granted bytes, which may be more than the requested ones
  memory_change allocations;  ///< granted allocations
  [[nodiscard]] bool operator==(const memory_changes&) const noexcept = default;
};

/// The counters of a statistics resource, with scopes. Thread-safe.
///
///     const auto statistics = std::make_shared<memory_statistics>();
///     device_runtime runtime{open_device("auto"), {.resource = make_statistics_resource(
///         make_default_resource(), statistics)}};
///     memory_statistics::scope request{*statistics};
///     run_request();
///     const auto peak = request.changes().bytes.peak;
class SLUICE_EXPORT memory_statistics {
 public:
  /// All counters at one instant.
  [[nodiscard]] memory_counters counters() const;

  /// Counts the changes between its construction and its destruction, on all threads.
  ///
  /// A free of memory that is older than the scope reduces `current`, which may become negative. A
  /// final `current` of 0 therefore proves the absence of leaks only if no older memory was freed
  /// meanwhile.
  ///
  /// Scopes are independent of each other. Any number may be open, on any threads, and they may end
  /// in any order, on any thread. The `memory_statistics` object must outlive them. Thread-safe.
  class scope {
   public:
    /// Begins to count the changes of `statistics`.
    /// @throws std::bad_alloc if the host has no memory
    explicit scope(memory_statistics& statistics);
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope();
    /// The changes so far.
    [[nodiscard]] memory_changes changes() const;

   private:
    friend class memory_statistics;

    memory_statistics& statistics_;
    memory_changes changes_;
  };

  /// For the resource: counts one allocation or one free of `bytes` bytes. A free must match a
  /// counted allocation.
  ///@{
  void count_allocation(std::size_t bytes) noexcept;
  void count_free(std::size_t bytes) noexcept;
  ///@}

 private:
  mutable std::mutex mutex_;
  memory_counters totals_;
  std::vector<scope*> scopes_;  // the open scopes
};

/// Makes a resource that counts the allocations of `upstream`.
///
/// Above a pool it counts the memory that blocks hold. Below a pool it counts the memory that the
/// pool holds.
/// @throws error `invalid_argument` if an argument is null
[[nodiscard]] SLUICE_EXPORT std::unique_ptr<memory_resource> make_statistics_resource(
    std::unique_ptr<memory_resource> upstream, std::shared_ptr<memory_statistics> statistics);

/// Makes a resource that fails scripted allocations. For tests.
///
/// An allocation on which `faults` strikes throws `out_of_memory` and does not reach `upstream`.
/// The text begins with "scripted".
/// @throws error `invalid_argument` if an argument is null
[[nodiscard]] SLUICE_EXPORT std::unique_ptr<memory_resource> make_failing_resource(
    std::unique_ptr<memory_resource> upstream, std::shared_ptr<fault_countdown> faults);

}  // namespace sluice
