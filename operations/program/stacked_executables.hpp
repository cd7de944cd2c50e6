// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/core/member_copies.hpp"
#include "operations/executor/batch_growth.hpp"
#include "operations/program/batch_layout.hpp"
#include "operations/program/kept_plans.hpp"

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace sluice::operations {

class executable;

/// The executables of a program on a GPU for two, four, eight … runs as one; also for one run if
/// runs are padded.
///
/// A batch of runs is cut into pieces for which there is an executable. A piece gathers the inputs
/// of its runs into scratch memory, with zeros for what is missing, runs the executable, and
/// scatters the results. The executable may be captured, as that of one run.
///
/// The executables for several runs are made later; see `batch_growth`. The plan of one run with
/// them stays within the limits of a plan, and the memory budget is charged when they are made.
/// What the owner of the lane has adopted counts in the sizes that it asks for.
class stacked_executables final : public batch_growth {
 public:
  /// None yet. `alone` is the executable of `layout->full_run`, without batches so far. It must
  /// outlive this object.
  /// @throws std::bad_alloc
  stacked_executables(const std::shared_ptr<const detail::program_graph>& graph,
                      std::shared_ptr<const batch_layout> layout, const executable& alone);
  ~stacked_executables();

  /// Adds that for one run, which is padded. Call it first.
  /// @throws error `library_failure`, std::bad_alloc
  void add_one(const detail::program_graph& graph, lane_libraries& libraries);
  /// Likewise as `executable`, of all pieces that the owner has adopted.
  ///@{
  [[nodiscard]] bool awaits_kernels() const noexcept;
  [[nodiscard]] bool wants_kernels() const noexcept;
  void load_kernels(lane_libraries& libraries) const noexcept;
  [[nodiscard]] bool awaits_capture() const noexcept;
  [[nodiscard]] bool wants_capture() const noexcept;
  void make_capture(lane_libraries& libraries) const noexcept;
  ///@}
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Charged to the memory budget already.
  [[nodiscard]] std::size_t device_bytes() const noexcept;
  [[nodiscard]] std::size_t shared_device_bytes() const noexcept;
  /// The scratch memory that a batch needs, in bytes.
  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }
  /// The scratch memory that one padded run needs, in bytes.
  [[nodiscard]] std::size_t workspace_bytes_of_one() const noexcept;
  /// The most device commands of a batch of up to `count` runs.
  [[nodiscard]] std::size_t commands(std::size_t count) const noexcept;

  /// Runs on their way: one external after the other of one run after the other. If runs are
  /// padded, also what each launch needs of its own, with the bytes of its rows.
  struct members {
    std::span<void* const> externals{};
    std::span<operation_launch* const> launches{};
  };
  /// Enqueues runs.
  /// @throws nothing_enqueued
  /// @throws error what a step refuses or a library fails with, after other parts were enqueued
  void enqueue(lane_libraries& libraries, members batch, void* scratch) const;

 private:
  struct piece {
    std::size_t count = 0;
    std::size_t workspace_bytes = 0;
    const executable* runs = nullptr;
    memory_reservation charge{};                  ///< until `storage` has been destroyed
    std::unique_ptr<const executable> storage{};  ///< nullptr: `runs` is that of one run
    std::vector<std::uint32_t> outputs{};         ///< numbers of their externals
    std::size_t externals = 0;
  };

  /// Memory for what a piece needs.
  struct lists {
    std::vector<cuda::member_row> members{};
    std::vector<void*> stacked{};
  };

  /// The most device commands of the steps of a piece, or of the graph that is captured of them.
  [[nodiscard]] static std::size_t commands_of(const piece& runs) noexcept;
  [[nodiscard]] bool pads() const noexcept { return !layout_->key.empty(); }
  /// Executables for 1, 2, 4 … 128 runs.
  static constexpr std::size_t max_pieces = 8;

  [[nodiscard]] bool make_size(std::size_t size, lane_libraries& libraries,
                               const plan_limits& limits,
                               const std::function<bool()>& is_interrupted) noexcept override;
  std::size_t adopt_made() noexcept override;
  /// The pieces that the owner has adopted, the smallest first. They do not move.
  [[nodiscard]] std::span<const std::unique_ptr<const piece>> pieces() const noexcept {
    return std::span(pieces_).first(piece_count_.load(std::memory_order_acquire));
  }
  void adopt(std::unique_ptr<const piece> new_piece) noexcept;
  [[nodiscard]] std::unique_ptr<piece> piece_of(const detail::program_graph& graph,
                                                const program_inference& stacked,
                                                std::size_t count) const;
  /// The executable for `count` runs; nullptr if the plan would exceed `limits`.
  [[nodiscard]] std::unique_ptr<const piece> make_piece(
      const std::shared_ptr<const detail::program_graph>& graph, lane_libraries& libraries,
      const plan_limits& limits, std::size_t count);
  void count_commands() noexcept;
  /// The executable for the next piece of a batch with `remaining` runs; nullptr: one run alone.
  [[nodiscard]] const piece* next_piece(std::size_t remaining) const noexcept;
  void enqueue_piece(lane_libraries& libraries, const piece& member_piece, const members& batch,
                     void* scratch, lists& buffers) const;

  const std::weak_ptr<const detail::program_graph> graph_;
  const std::shared_ptr<const batch_layout> layout_;
  const executable& alone_;
  const std::size_t bytes_of_alone_;
  const std::size_t device_bytes_of_alone_;
  const std::size_t max_in_batch_;
  // Of the places in the scratch memory, for one run; times the number of runs. Inputs, then
  // outputs.
  std::vector<std::size_t> offsets_;
  std::size_t place_bytes_ = 0;  // of all of them, for one run
  // Of the owner of the lane. The planner reads pieces, too.
  std::array<std::unique_ptr<const piece>, max_pieces> pieces_;
  std::atomic<std::size_t> piece_count_{0};
  std::vector<std::size_t> most_commands_;  // of batches of up to so many runs
  std::size_t workspace_bytes_ = 0;

  std::mutex hand_over_;
  std::array<std::unique_ptr<const piece>, max_pieces> made_;  // and not adopted
  std::size_t made_count_ = 0;

  // Of the planner.
  std::mutex making_;
  kept_plans kept_;  // of an executable whose making was interrupted
  std::size_t made_size_ = 1;
  std::size_t made_bytes_ = 0;
  std::size_t made_device_bytes_ = 0;
  std::size_t made_workspace_bytes_ = 0;
};

}  // namespace sluice::operations
