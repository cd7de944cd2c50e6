// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/plan_exchange.hpp"

#include "operations/executor/known_plans.hpp"

#include <algorithm>

namespace sluice::operations {

void plan_exchange::join(detail::lane_choice::lane& lane) {
  lane.choice().plans().join(mailbox_);
  lane_ = &lane;
  learn();
}

void plan_exchange::learn() noexcept {
  if (lane_ == nullptr || !learns()) return;
  auto& known = lane_->choice().plans();
  for (; !job_ && learned_count_ < known.count(); ++learned_count_) {
    try {
      const auto plan = known.find(learned_count_);
      if (!plan || plans_.has(plan->key)) continue;
      const auto owner = plan->owner.lock();
      if (plan->has_owner && !owner) continue;  // no request can need it any more
      if (plan->bytes > max_plan_bytes_ - std::min(cache_.bytes(), max_plan_bytes_)) {
        lacks_plans_ = true;
        continue;
      }
      job_ = planning_.request(plan_key(plan->key), plan->call ? &*plan->call : nullptr, {}, owner,
                               plan->shared_device_bytes);
      break;
    } catch (...) {
      lacks_plans_ = true;
    }
  }
  lane_->note_plans(learned_count_);
}

void plan_exchange::share(const plan_job& job, bool dropped) noexcept {
  note_growth(dropped);  // before the other lanes learn of this one
  if (lane_ == nullptr) return;
  auto& choice = lane_->choice();
  const bool is_learned = job_.get() == &job;
  if (!job.outcome.failure) {
    choice.plans().add(job, mailbox_);
  } else if (is_learned || job.key.part == plan_part::libraries) {
    lacks_plans_ = true;
  }
  if (is_learned) {
    job_.reset();
    ++learned_count_;
  }
}

void plan_exchange::note_growth(bool dropped) noexcept {
  if (dropped) lacks_plans_ = true;
  if (lane_ == nullptr || lane_->number() != 0) return;
  // Each lane has the plans of the first one.
  const auto lanes = max_plan_bytes_ / std::max<std::size_t>(1, cache_.bytes());
  lane_->choice().limit_on_demand(std::max<std::size_t>(1, lanes) - 1);
}

executor::shared_plans plan_exchange::state() const noexcept {
  if (lacks_plans_) return executor::shared_plans::unavailable;
  const bool has_all = plans_.are_prepared() &&
                       (lane_ == nullptr || learned_count_ == lane_->choice().plans().count());
  return has_all ? executor::shared_plans::made : executor::shared_plans::missing;
}

bool plan_exchange::learns() const noexcept {
  const auto& choice = lane_->choice();
  return choice.on_demand(lane_->number()) || choice.on_demand(1);
}

}  // namespace sluice::operations
