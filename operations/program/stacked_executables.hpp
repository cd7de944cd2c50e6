// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/core/member_copies.hpp"
#include "operations/program/batch_layout.hpp"

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
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
/// scatters the results.
class stacked_executables {
 public:
  /// None yet. `alone` is the executable of
  /// `layout->one`. It must outlive this object.
  stacked_executables(std::shared_ptr<const batch_layout> layout, const executable& alone);
  stacked_executables(const stacked_executables&) = delete;
  stacked_executables& operator=(const stacked_executables&) = delete;
  ~stacked_executables();

  /// Adds that for one run, which is padded.
  /// @throws error `library_failure`, std::bad_alloc
  void add_one(const detail::program_graph& graph, lane_libraries& libraries);
  /// Makes those with which the plan of `alone` stays within `limits`, and for which there is
  /// memory. Call it once.
  void add(const detail::program_graph& graph, lane_libraries& libraries,
           const plan_limits& limits) noexcept;
  /// Whether there is one for several runs.
  [[nodiscard]] bool takes_batches() const noexcept {
    return !pieces_.empty() && pieces_.back().count > 1;
  }
  /// Likewise as `executable`, of all pieces.
  ///@{
  [[nodiscard]] bool awaits_kernels() const noexcept;
  [[nodiscard]] bool wants_kernels() const noexcept;
  void load_kernels(lane_libraries& libraries) const noexcept;
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

  [[nodiscard]] bool pads() const noexcept { return !layout_->key.empty(); }
  [[nodiscard]] piece piece_of(const detail::program_graph& graph, const program_inference& stacked,
                               std::size_t count) const;
  /// The executable for `count` runs; nothing if the plan would exceed `limits`.
  [[nodiscard]] std::optional<piece> make(const detail::program_graph& graph,
                                          lane_libraries& libraries, const plan_limits& limits,
                                          std::size_t count) const;
  void count_commands(std::size_t max_in_batch);
  /// The executable for the next piece of a batch with `remaining` runs; nullptr: one run alone.
  [[nodiscard]] const piece* next_piece(std::size_t remaining) const noexcept;
  void enqueue_piece(lane_libraries& libraries, const piece& member_piece, const members& batch,
                     void* scratch, lists& buffers) const;

  const std::shared_ptr<const batch_layout> layout_;
  const executable& alone_;
  // Of the places in the scratch memory, for one run; times the number of runs. Inputs, then
  // outputs.
  std::vector<std::size_t> offsets_;
  std::size_t place_bytes_ = 0;             // of all of them, for one run
  std::vector<piece> pieces_;               // of 1 if runs are padded, 2, 4, 8 … runs
  std::vector<std::size_t> most_commands_;  // of batches of up to so many runs
  std::size_t workspace_bytes_ = 0;
};

}  // namespace sluice::operations
