// SPDX-License-Identifier: Apache-2.0
#include "service/front/pending_requests.hpp"

namespace sluice::service {

void pending_requests::add(std::uint64_t number, worker_run run) {
  const std::lock_guard lock(mutex_);
  if (run.deadline && run.done) deadlines_.emplace(*run.deadline, number);
  runs_.emplace(number, std::move(run));
}

std::optional<worker_run> pending_requests::take(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  auto node = runs_.extract(number);
  if (node.empty()) return std::nullopt;
  forget_deadline(number, node.mapped());
  return std::move(node.mapped());
}

std::optional<worker_run> pending_requests::find(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(number);
  if (found == runs_.end()) return std::nullopt;
  return found->second;
}

void pending_requests::assign(std::uint64_t number, std::shared_ptr<worker_link> worker) {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(number);
  if (found != runs_.end()) found->second.worker = std::move(worker);
}

void pending_requests::count_attempt(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(number);
  if (found != runs_.end()) ++found->second.attempts;
}

std::vector<std::function<void(run_result)>> pending_requests::take_answers_of(
    const worker_link& worker) {
  std::vector<std::function<void(run_result)>> answers;
  const std::lock_guard lock(mutex_);
  for (auto& [number, run] : runs_) {
    if (run.worker.get() != &worker || !run.done) continue;
    forget_deadline(number, run);
    answers.push_back(std::exchange(run.done, nullptr));
  }
  return answers;
}

std::function<void(run_result)> pending_requests::take_answer(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(number);
  if (found == runs_.end()) return nullptr;
  forget_deadline(number, found->second);
  return std::exchange(found->second.done, nullptr);
}

void pending_requests::forget_deadline(std::uint64_t number, const worker_run& run) {
  if (!run.deadline) return;
  const auto [first, last] = deadlines_.equal_range(*run.deadline);
  for (auto each = first; each != last; ++each) {
    if (each->second == number) {
      deadlines_.erase(each);
      return;
    }
  }
}

std::shared_ptr<worker_link> pending_requests::worker_of(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(number);
  return found == runs_.end() ? nullptr : found->second.worker;
}

std::vector<std::pair<std::uint64_t, std::function<void(run_result)>>>
pending_requests::take_expired(time_point now) {
  std::vector<std::pair<std::uint64_t, std::function<void(run_result)>>> expired;
  const std::lock_guard lock(mutex_);
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto number = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    expired.emplace_back(number, std::exchange(runs_.at(number).done, nullptr));
  }
  return expired;
}

std::optional<pending_requests::time_point> pending_requests::first_deadline() const {
  const std::lock_guard lock(mutex_);
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

std::vector<worker_run> pending_requests::take_all() {
  const std::lock_guard lock(mutex_);
  std::vector<worker_run> all;
  all.reserve(runs_.size());
  for (auto& [number, run] : runs_) all.push_back(std::move(run));
  runs_.clear();
  deadlines_.clear();
  return all;
}

}  // namespace sluice::service
