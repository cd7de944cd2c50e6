// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/fft/cuda/cufft_transform.hpp"

#include <sluice/operations/operation.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <array>
#include <cstddef>
#include <deque>
#include <span>

namespace sluice::cuda {

/// The transforms for one launch key: one for single launches, and some for batches.
///
/// A batch is cut into pieces. A piece gathers the inputs of its launches, transforms them as one,
/// and scatters the results. A piece with fewer launches than its transform takes has zeros for the
/// rest.
class cufft_plan final : public operation_plan {
 public:
  /// The operands of one launch of a batch.
  struct member {
    void* x;
    void* y;
  };

  /// @throws error `library_failure`, `out_of_memory`
  cufft_plan(const operations::fft_key& key, lane_libraries& libraries);
  ~cufft_plan() override;

  [[nodiscard]] std::size_t bytes() const noexcept override;
  [[nodiscard]] std::size_t device_bytes() const noexcept override;
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return single_.workspace_bytes();
  }
  [[nodiscard]] std::size_t commands() const noexcept override { return commands_of_transform; }
  void add_batches(lane_libraries& libraries, const plan_limits& limits) const noexcept override;
  [[nodiscard]] std::size_t batch_workspace_bytes() const noexcept override {
    return batch_workspace_bytes_;
  }
  [[nodiscard]] std::size_t batch_commands(std::size_t count) const noexcept override {
    return most_commands_[count];
  }

  /// Enqueues one launch. The result is multiplied by `scale`.
  /// @throws error `library_failure`
  void enqueue(lane_libraries& libraries, double scale, void* workspace, member operands) const;
  /// Enqueues launches together.
  /// @throws nothing_enqueued, error `library_failure`
  void enqueue_batch(lane_libraries& libraries, double scale, void* workspace,
                     std::span<const member> members) const;

 private:
  static constexpr std::size_t commands_of_transform = 8;

  struct piece {
    piece(const operations::fft_key& single_key, std::size_t most_launches,
          lane_libraries& libraries);

    std::size_t capacity;  // launches
    cufft_transform transform;
    memory_reservation charge{};
  };

  [[nodiscard]] std::size_t bytes_of_input() const noexcept;
  [[nodiscard]] std::size_t bytes_of_output() const noexcept;
  /// The transform for the next part of a batch with `remaining` launches; nullptr: one launch
  /// alone.
  [[nodiscard]] const piece* next_piece(std::size_t remaining) const noexcept;
  void add(std::size_t capacity, lane_libraries& libraries, const plan_limits& limits) const;
  void count_commands() const noexcept;
  void enqueue_piece(lane_libraries& libraries, double scale, std::byte* scratch,
                     const piece& member_piece, std::span<const member> members) const;

  const cufft_transform single_;
  // Written by `add_batches` only.
  mutable std::deque<piece> pieces_;  // the smallest first
  mutable std::size_t batch_workspace_bytes_;
  mutable std::array<std::size_t, operations::most_transforms + 1> most_commands_{};
};

}  // namespace sluice::cuda
