// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/fault_countdown.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace sluice {

/// How much there is, how much there was at most, and how much there has been in all.
struct memory_counter {
  std::size_t current = 0;  ///< at this moment
  std::size_t peak = 0;     ///< the largest value of `current` so far
  std::size_t total = 0;    ///< the sum of everything allocated
  [[nodiscard]] bool operator==(const memory_counter&) const noexcept = default;
};

/// Counters of a statistics resource.
struct memory_counters {
  memory_counter bytes;        ///< as granted, which may be more than was asked for
  memory_counter allocations;  ///< that were granted
  [[nodiscard]] bool operator==(const memory_counters&) const noexcept = default;
};

/// How much has come since a moment less how much has gone, whoever had it before; the highest
/// value of that, at least 0; and how much has come.
struct memory_change {
  std::ptrdiff_t current = 0;  ///< allocated less freed
  std::size_t peak = 0;        ///< the largest value of `current`, at least 0
  std::size_t total = 0;       ///< the sum of everything allocated
  [[nodiscard]] bool operator==(const memory_change&) const noexcept = default;
};

/// What a `memory_statistics::scope` has counted.
struct memory_changes {
  memory_change bytes;        ///< as granted, which may be more than was asked for
  memory_change allocations;  ///< that were granted
  [[nodiscard]] bool operator==(const memory_changes&) const noexcept = default;
};

/// What a statistics resource has counted. Thread-safe.
class memory_statistics {
 public:
  /// All counters, from one moment.
  [[nodiscard]] memory_counters counters() const;

  /// Counts, in addition, what changes while it is there, by whichever thread: a free of memory
  /// that is older than the scope takes from `current`, too, which is below 0 when more was freed
  /// than allocated. So 0 at the end says that nothing was left behind only where nothing older was
  /// freed meanwhile. Scopes are independent of each other: any number may be open, in any threads,
  /// and they may end in any order, in any thread. `of` must outlive them. Thread-safe.
  class scope {
   public:
    /// @throws std::bad_alloc
    explicit scope(memory_statistics& of);
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope();
    /// What the scope has counted so far. Thread-safe.
    [[nodiscard]] memory_changes changes() const;

   private:
    friend class memory_statistics;

    memory_statistics& of_;
    memory_changes changes_;
  };

  /// For the resource, which counts as freed only what it has counted as allocated.
  ///@{
  void count_allocation(std::size_t bytes) noexcept;
  void count_free(std::size_t bytes) noexcept;
  ///@}

 private:
  mutable std::mutex mutex_;
  memory_counters all_;
  std::vector<scope*> scopes_;  // that are open
};

/// Counts what passes through to `upstream`. Over a pool it counts what users hold, under it what
/// the pool holds.
/// @throws error `invalid_argument` (an argument is missing), as the one below
[[nodiscard]] std::unique_ptr<memory_resource> make_statistics_resource(
    std::unique_ptr<memory_resource> upstream, std::shared_ptr<memory_statistics> statistics);

/// For tests: allocations on which `faults` strikes throw `out_of_memory` ("scripted") and do not
/// reach `upstream`.
[[nodiscard]] std::unique_ptr<memory_resource> make_failing_resource(
    std::unique_ptr<memory_resource> upstream, std::shared_ptr<fault_countdown> faults);

}  // namespace sluice
