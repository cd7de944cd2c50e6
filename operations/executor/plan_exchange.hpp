// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/plan_cache.hpp"
#include "operations/executor/planning.hpp"
#include "operations/executor/request_plans.hpp"

#include <sluice/operations/executor.hpp>
#include <sluice/operations/lane_choice.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace sluice::operations {

/// What an executor learns from the other lanes of its actor, and tells them: the plans that one of
/// them has made. It does nothing until `join`. Only the owner of the executor calls it.
class plan_exchange {
 public:
  plan_exchange(request_plans& plans, const plan_cache& cache, planning& planning,
                std::shared_ptr<owner_mailbox> mailbox, std::size_t max_plan_bytes) noexcept
      : plans_(plans),
        cache_(cache),
        planning_(planning),
        mailbox_(std::move(mailbox)),
        max_plan_bytes_(max_plan_bytes) {}

  /// Makes the executor that of `lane`, which must outlive it.
  /// @throws std::bad_alloc if there is no memory
  void join(detail::lane_choice::lane& lane);
  /// Has the next plan made that another lane has made and this one has not.
  void learn() noexcept;
  /// Tells the other lanes of a plan that has been made. `dropped`: the executor has dropped
  /// another one for it.
  void share(const plan_job& job, bool dropped) noexcept;
  /// The cache holds more. `dropped`: likewise.
  void note_growth(bool dropped) noexcept;
  /// The executor has found no memory for a launch. Returns whether its lane is to be closed.
  [[nodiscard]] bool note_shortage() noexcept {
    const bool is_on_demand = lane_ != nullptr && lane_->choice().on_demand(lane_->number());
    lacks_plans_ = lacks_plans_ || is_on_demand;
    return is_on_demand;
  }
  /// As `executor::plans_of_other_lanes`.
  [[nodiscard]] executor::shared_plans state() const noexcept;

 private:
  /// Whether senders may move to the lane from one that is opened on demand, or it is such a lane.
  [[nodiscard]] bool learns() const noexcept;

  request_plans& plans_;
  const plan_cache& cache_;
  planning& planning_;
  const std::shared_ptr<owner_mailbox> mailbox_;
  const std::size_t max_plan_bytes_;
  detail::lane_choice::lane* lane_ = nullptr;
  std::shared_ptr<const plan_job> job_;  // makes a plan of another lane
  std::uint64_t learned_count_ = 0;      // of `known_plans`
  bool lacks_plans_ = false;             // it cannot make or keep all of them
};

}  // namespace sluice::operations
