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
  std::size_t current = 0;
  std::size_t peak = 0;
  std::size_t total = 0;
  [[nodiscard]] bool operator==(const memory_counter&) const noexcept = default;
};

struct memory_counters {
  memory_counter bytes;        ///< as granted, which may be more than was asked for
  memory_counter allocations;  ///< that were granted
  [[nodiscard]] bool operator==(const memory_counters&) const noexcept = default;
};

/// What a statistics resource has counted. Thread-safe.
class memory_statistics {
 public:
  [[nodiscard]] memory_counters counters() const;

  /// Counts anew from here, in addition: `current` is relative to this moment and never below 0,
  /// `peak` and `total` begin with it. Scopes nest; the innermost one ends first.
  class scope {
   public:
    explicit scope(memory_statistics& of);
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope();
    [[nodiscard]] memory_counters counters() const;

   private:
    memory_statistics& of_;
    std::size_t depth_;
  };

  /// For the resource.
  void count_allocation(std::size_t bytes) noexcept;
  void count_free(std::size_t bytes) noexcept;

 private:
  mutable std::mutex mutex_;
  memory_counters all_;
  std::vector<memory_counters> scopes_;  // the innermost one last
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
