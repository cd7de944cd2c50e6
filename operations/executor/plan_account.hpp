// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/operation.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace sluice::operations {

/// Counts the plans of one executor. Thread-safe.
struct plan_account {
  std::atomic<std::uint64_t> plan_count{0};
  std::atomic<std::uint64_t> improvements{0};  // attempts
  std::atomic<std::size_t> alive{0};  // not destroyed: kept, in use, or on the reclaim thread
  std::atomic<std::size_t> alive_bytes{0};
};

/// The size of a plan in host and in device memory.
[[nodiscard]] inline std::size_t total_bytes(const operation_plan& plan) noexcept {
  return plan.bytes() + plan.device_bytes();
}

/// A plan that is counted, and charged to the budget, until it has been destroyed.
class accounted_plan {
 public:
  accounted_plan(std::shared_ptr<const operation_plan> plan, memory_reservation charge,
                 std::shared_ptr<plan_account> account) noexcept
      : account_(std::move(account)), charge_(std::move(charge)), plan_(std::move(plan)) {
    account_->plan_count.fetch_add(1, std::memory_order_relaxed);
    account_->alive.fetch_add(1, std::memory_order_relaxed);
    account_->alive_bytes.fetch_add(total_bytes(*plan_), std::memory_order_relaxed);
  }
  accounted_plan(const accounted_plan&) = delete;
  accounted_plan& operator=(const accounted_plan&) = delete;
  ~accounted_plan() {
    const auto bytes = total_bytes(*plan_);
    plan_.reset();
    charge_ = {};
    account_->alive_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    account_->alive.fetch_sub(1, std::memory_order_release);
  }
  [[nodiscard]] const operation_plan* get() const noexcept { return plan_.get(); }

 private:
  std::shared_ptr<plan_account> account_;
  memory_reservation charge_;
  std::shared_ptr<const operation_plan> plan_;
};

}  // namespace sluice::operations
