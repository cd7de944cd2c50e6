// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/planning.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace sluice::operations {

/// The plans that the lanes of one actor have made, in the order in which they were made first. The
/// other lanes make them, too, before they take the requests of a sender that may need them. A
/// bounded number is remembered. Thread-safe.
class known_plans {
 public:
  /// What a lane needs to make a plan, or the library objects of an operation.
  struct plan {
    plan_key key;
    std::optional<call_storage> call;  ///< nothing: only the library objects
    std::weak_ptr<const void> owner;   ///< of what the call refers to
    bool has_owner = false;
    std::size_t shared_device_bytes = 0;
    std::size_t bytes = 0;  ///< in the cache of a lane
  };

  /// Unless it `learns`, no lane makes the plans of others, and none is remembered.
  explicit known_plans(bool learns) noexcept : learns_(learns) {}

  /// Has `mailbox` woken when another lane has made a plan.
  /// @throws std::bad_alloc if there is no memory
  void join(const std::shared_ptr<owner_mailbox>& mailbox) {
    if (!learns_) return;
    const std::lock_guard lock(mutex_);
    std::erase_if(mailboxes_, [](const auto& other) { return other.expired(); });
    mailboxes_.push_back(mailbox);
  }
  /// A lane, whose mailbox is `mailbox`, has made the plan of a job.
  void add(const plan_job& job, const std::shared_ptr<owner_mailbox>& mailbox) noexcept {
    if (!learns_) return;
    std::vector<std::shared_ptr<owner_mailbox>> others;
    try {
      const std::lock_guard lock(mutex_);
      if (!keys_.insert(job.key).second) return;
      try {
        plans_.push_back({.key = job.key,
                          .call = job.call,
                          .owner = job.owner,
                          .has_owner = job.owner != nullptr,
                          .shared_device_bytes = job.shared_device_bytes,
                          .bytes = job.outcome.plan ? total_bytes(*job.outcome.plan) : 0});
      } catch (...) {
        keys_.erase(job.key);
        throw;
      }
      if (plans_.size() > max_plans) {
        keys_.erase(plans_.front().key);
        plans_.pop_front();
      }
      count_.fetch_add(1, std::memory_order_release);
      for (const auto& other : mailboxes_) {
        if (auto target = other.lock(); target && target != mailbox) {
          others.push_back(std::move(target));
        }
      }
    } catch (...) {
      // Without memory a lane makes it when a request needs it.
    }
    for (const auto& other : others) other->wake();
  }
  /// How many plans have been added.
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  /// The plan that was added as the one with this number, from 0; nothing if it has been forgotten.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] std::optional<plan> find(std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    const auto first_number = count_.load(std::memory_order_relaxed) - plans_.size();
    if (number < first_number) return std::nullopt;
    return plans_[static_cast<std::size_t>(number - first_number)];
  }

 private:
  static constexpr std::size_t max_plans = 256;

  const bool learns_;
  mutable std::mutex mutex_;
  std::deque<plan> plans_;
  std::set<plan_key, plan_key_order> keys_;  // of `plans_`
  std::vector<std::weak_ptr<owner_mailbox>> mailboxes_;
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace sluice::operations
