// SPDX-License-Identifier: Apache-2.0
#include "service/worker/warm_up_runs.hpp"

#include <utility>

namespace sluice::service {

void warm_up_runs::add(std::uint32_t handle, nlohmann::json answer,
                       std::vector<prepared_warm_up> warm_ups) {
  jobs_.push_back(
      {.result = {.handle = handle, .answer = std::move(answer)}, .warm_ups = std::move(warm_ups)});
  wake_->signal();
}

bool warm_up_runs::begin(job& first) {
  while (first.current < first.warm_ups.size() &&
         first.begun == first.warm_ups[first.current].count) {
    ++first.current;
    first.begun = 0;
  }
  if (first.current == first.warm_ups.size()) return false;
  ++first.begun;
  is_running_ = true;
  models_.warm_up(first.result.handle, first.warm_ups[first.current].inputs,
                  [end = end_, wake = wake_](const error* failure) {
                    {
                      const std::lock_guard lock(end->mutex);
                      end->is_there = true;
                      if (failure != nullptr) end->failure.emplace(*failure);
                    }
                    wake->signal();
                  });
  return true;
}

void warm_up_runs::remove(std::uint32_t handle) {
  if (is_running_ && jobs_.front().result.handle == handle) {
    is_dropped_ = true;
    return;
  }
  std::erase_if(jobs_, [handle](const job& each) { return each.result.handle == handle; });
}

std::vector<warm_up_runs::outcome> warm_up_runs::take() {
  std::vector<outcome> outcomes;
  const auto finish = [&](std::optional<std::string> problem) {
    auto& first = jobs_.front();
    if (problem) {
      first.result.problem =
          "the warm-up \"" + first.warm_ups.at(first.current).name + "\" failed: " + *problem;
    }
    outcomes.push_back(std::move(first.result));
    jobs_.pop_front();
  };
  if (is_running_) {
    const std::lock_guard lock(end_->mutex);
    if (!std::exchange(end_->is_there, false)) return outcomes;
    is_running_ = false;
    const auto failure = std::exchange(end_->failure, std::nullopt);
    // The process ends then, and the next one runs the warm-ups again.
    if (failure && failure->code() == errc::device_lost) return outcomes;
    // Where memory is short now, requests come without this warm-up.
    if (failure && !is_retryable(failure->code()) && !is_dropped_) finish(failure->what());
    if (std::exchange(is_dropped_, false)) jobs_.pop_front();
  }
  while (!jobs_.empty() && !is_running_) {
    try {
      if (!begin(jobs_.front())) finish(std::nullopt);
    } catch (const std::exception& e) {
      is_running_ = false;
      finish(e.what());
    }
  }
  return outcomes;
}

}  // namespace sluice::service
