// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/batch_growth.hpp"
#include "operations/executor/memory_with_plans.hpp"
#include "operations/executor/plan_cache.hpp"
#include "operations/executor/planning.hpp"

#include <sluice/operations/operation_request.hpp>

#include <memory>
#include <set>

namespace sluice::operations {

/// Finds the plans and library objects of requests to an executor, or has them made. Only the owner
/// of the executor calls it.
class request_plans {
 public:
  request_plans(device_kind kind, plan_cache& cache, memory_with_plans& memory,
                planning& planning) noexcept
      : kind_(kind), cache_(cache), memory_(memory), planning_(planning) {}

  /// Gives an inferred request its plan, or the job that makes the plan and the library objects.
  /// @throws error with which the plan has failed before, or as `planning::request`
  /// @throws std::bad_alloc if there is no memory
  void find(detail::operation_request& request);
  /// If a request needs batches of a plan that lacks some, takes the plan from it and gives it the
  /// job that makes the next size. Returns whether that is so.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] bool request_batches(detail::operation_request& request);
  /// Has batches of `request` and those like it grow. `count(n)` returns how many of them wait, at
  /// most `n`.
  template <class Count>
  void grow(const detail::operation_request& request, const Count& count) noexcept {
    auto* const growth = request.plan ? request.plan->growth() : nullptr;
    const auto most_counted = growth != nullptr ? growth->most_counted() : 0;
    if (most_counted == 0) return;
    growth->note_waiting(count(most_counted));
    if (growth->wants_next()) start_growth(request);
  }
  /// Lets batches use what a job has made for a plan, and requests the next size if it is wanted.
  /// Returns whether the cache has dropped a plan because there was no room.
  bool adopt_batches(const plan_job& job) noexcept;
  /// Has the library objects of an operation made. If that fails, the first request tries again.
  void prepare(const launch_descriptor& descriptor) noexcept;
  /// Whether the library objects that `prepare` has asked for are made.
  [[nodiscard]] bool are_prepared() const noexcept { return requested_.empty(); }
  /// Whether the plan, or the library objects, of a key are made.
  [[nodiscard]] bool has(const plan_key& key);
  /// Has a plan made again if there is memory for it once no other one is kept.
  [[nodiscard]] bool retry(const std::shared_ptr<plan_job>& job) noexcept;
  /// Keeps the outcome of a job. Returns whether it has dropped a plan because there was no room.
  bool keep(const plan_job& job) noexcept;

 private:
  [[nodiscard]] bool is_prepared(const launch_descriptor& descriptor) const noexcept {
    return !descriptor.has_libraries(kind_) || prepared_.contains(&descriptor);
  }
  void find_for_operation(detail::operation_request& request);
  void start_growth(const detail::operation_request& request) noexcept;

  const device_kind kind_;
  plan_cache& cache_;
  memory_with_plans& memory_;
  planning& planning_;
  std::set<const launch_descriptor*> prepared_;
  std::set<const launch_descriptor*> requested_;  // by `prepare`, and not prepared yet
};

}  // namespace sluice::operations
