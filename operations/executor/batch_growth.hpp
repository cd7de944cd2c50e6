// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation_plan.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>

namespace sluice::operations {

/// How a plan gets what batches of 2, 4, 8 … launches need, after its first launch: one size after
/// the other, the smallest first.
///
/// A size is made when that many launches have waited together, by an idle job of the planner, so
/// it delays no plan that a request waits for. The owner of the lane adopts it between two launches
/// and then asks for the next size. Batches are cut into the sizes that it has adopted.
///
/// What may go wrong, and what happens then:
/// * A size cannot be made, because the budget or the device has no memory for it, it exceeds the
///   limits of a plan, or a library refuses it: the growth is over. No request fails because of it,
///   and nothing is tried again while the plan exists.
/// * The device is lost: the same. Requests are answered with the loss by the owner of the lane.
/// * A short or long job comes while a size is made: the job ends after the plan of one step. What
///   it has made is kept, and the owner asks for the same size again.
/// * The executor ends: its idle jobs are dropped, and the one that runs ends after the plan of one
///   step. What it has made is never used.
/// * The plan cache drops the plan: a job that has not begun makes nothing once only the job holds
///   the plan. Otherwise the launches and waiting requests that hold the plan use the size.
/// * Requests are cancelled: the growth belongs to the plan, and nothing changes.
/// * There is no memory for the job itself: nothing is made for the plan any more.
/// Plans belong to one lane, so lanes share no growth. On a host device plans have none.
class batch_growth {
 public:
  /// Nothing is there yet. Batches have up to `largest_batch` launches.
  explicit batch_growth(std::size_t largest_batch) noexcept : largest_batch_(largest_batch) {}
  batch_growth(const batch_growth&) = delete;
  batch_growth& operator=(const batch_growth&) = delete;

  // Only the owner of the lane calls these.
  /// The largest size that has been adopted; 1: none.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// The size that is made next; 0: none, because the growth is over.
  [[nodiscard]] std::size_t next_size() const noexcept {
    return is_over_.load(std::memory_order_acquire) || size_ > largest_batch_ / 2 ? 0 : 2 * size_;
  }
  /// Whether launches may share a batch, now or later.
  [[nodiscard]] bool may_take_batches() const noexcept { return size_ > 1 || next_size() != 0; }
  /// Up to how many launches that wait together make a difference to the growth; 0: none do.
  [[nodiscard]] std::size_t most_counted() const noexcept {
    return waiting_ >= largest_batch_ || next_size() == 0 ? 0 : largest_batch_;
  }
  /// Takes note that `count` launches wait which could share a batch.
  void note_waiting(std::size_t count) noexcept { waiting_ = std::max(waiting_, count); }
  /// Whether an idle job is to make the next size now. True once until `end_request`.
  [[nodiscard]] bool wants_next() noexcept {
    const auto next = next_size();
    if (is_requested_ || next == 0 || waiting_ < next) return false;
    is_requested_ = true;
    return true;
  }
  /// The idle job has ended.
  void end_request() noexcept { is_requested_ = false; }
  /// Lets batches use what has been made.
  void adopt() noexcept { size_ = std::max(size_, adopt_made()); }

  /// Makes `size`, which `next_size` has returned, unless that has been done. Ends without it when
  /// `is_interrupted` returns true, which it calls after each plan of a step. Only the planner
  /// calls it.
  void make(std::size_t size, lane_libraries& libraries, const plan_limits& limits,
            const std::function<bool()>& is_interrupted) noexcept {
    if (is_over_.load(std::memory_order_relaxed)) return;
    if (!make_size(size, libraries, limits, is_interrupted)) {
      is_over_.store(true, std::memory_order_release);
    }
  }

 protected:
  ~batch_growth() = default;

 private:
  /// As `make`. Returns false if the size cannot be made.
  virtual bool make_size(std::size_t size, lane_libraries& libraries, const plan_limits& limits,
                         const std::function<bool()>& is_interrupted) noexcept = 0;
  /// Lets batches use what has been made. Returns the largest size; 1: none.
  virtual std::size_t adopt_made() noexcept = 0;

  // Of the owner of the lane.
  const std::size_t largest_batch_;
  std::size_t size_ = 1;
  std::size_t waiting_ = 1;  // the most launches that have waited together
  bool is_requested_ = false;
  std::atomic<bool> is_over_{false};
};

}  // namespace sluice::operations
