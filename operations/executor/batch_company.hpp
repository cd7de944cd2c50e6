// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/operation_plan.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>

namespace sluice::operations {

/// Decides how many runs of a long program share a batch, and when the next batch is launched.
///
/// Clients that wait for their answers before they send the next request make two groups: a GPU
/// computes the requests of one group while the clients of the other one send theirs. A batch of a
/// long program takes almost as long if it is smaller, and the batches of a lane run one after the
/// other. So a batch behind another one waits until as many requests are there as lately, or until
/// that one has ended. As long as batches are launched behind each other, none takes more
/// than half of the requests, rounded up to a power of two: a large group and a small one would
/// take longer.
///
/// Only the owner of the executor calls it.
class batch_company {
 public:
  /// A batch of `size` of the `waiting` requests for a plan is launched, behind a batch of
  /// `in_flight` requests for the plan if that is not 0.
  void note_launch(const operation_plan& plan, std::size_t size, std::size_t waiting,
                   std::size_t in_flight) noexcept {
    const auto requests = waiting + in_flight;
    if (is_of(plan)) {
      most_requests_ = std::max(requests, most_requests_ - 1);
      launches_in_turns_ = in_flight != 0 ? 2 : std::max(launches_in_turns_ - 1, 0);
    } else {
      most_requests_ = requests;
      launches_in_turns_ = 0;
    }
    plan_ = &plan;
    size_ = size;
  }
  /// A batch of no long program is launched.
  void note_other_launch() noexcept { *this = {}; }
  /// The size of the last batch if it was of this plan; 0 otherwise.
  [[nodiscard]] std::size_t last_size(const operation_plan& plan) const noexcept {
    return is_of(plan) ? size_ : 0;
  }
  /// Whether further requests for a plan are expected soon, while `requests` are there. One that is
  /// late is awaited with one launch only.
  [[nodiscard]] bool expects_more(const operation_plan& plan, std::size_t requests) const noexcept {
    return is_of(plan) && requests < most_requests_;
  }
  /// The most members of the next batch while `waiting` requests wait, behind `in_flight` others.
  [[nodiscard]] std::size_t largest_batch(const operation_plan& plan, std::size_t waiting,
                                          std::size_t in_flight) const noexcept {
    const bool takes_turns = is_of(plan) && (in_flight != 0 || launches_in_turns_ != 0);
    if (!takes_turns) return waiting;
    return std::bit_ceil((std::max(waiting + in_flight, most_requests_) + 1) / 2);
  }

 private:
  [[nodiscard]] bool is_of(const operation_plan& plan) const noexcept { return plan_ == &plan; }

  const operation_plan* plan_ = nullptr;  // of the last batch; it may have ended
  std::size_t size_ = 0;                  // of the last batch
  std::size_t most_requests_ = 0;         // one less with each launch
  int launches_in_turns_ = 0;             // 2 after a launch behind a batch, then less
};

}  // namespace sluice::operations
