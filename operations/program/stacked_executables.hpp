// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"

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

/// The executables of a program on a GPU for two, four, eight … runs as one.
///
/// A batch of runs is cut into pieces for which there is an executable. A piece gathers the inputs
/// of its runs into scratch memory, with inputs of zeros for those that are missing, runs the
/// executable, and scatters the results.
class stacked_executables {
 public:
  /// None yet. `alone` is the executable of one run. It must outlive this object.
  stacked_executables(std::shared_ptr<const program_inference> inferred,
                      const executable& alone) noexcept;
  stacked_executables(const stacked_executables&) = delete;
  stacked_executables& operator=(const stacked_executables&) = delete;
  ~stacked_executables();

  /// Makes those with which the plan of `alone` stays within `limits`, and for which there is
  /// memory. Call it once.
  void add(const detail::program_graph& of, lane_libraries& libraries,
           const plan_limits& limits) noexcept;
  /// Whether there is none.
  [[nodiscard]] bool empty() const noexcept { return pieces_.empty(); }
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Charged to the memory budget already.
  [[nodiscard]] std::size_t device_bytes() const noexcept;
  [[nodiscard]] std::size_t shared_device_bytes() const noexcept;
  /// The scratch memory that a batch needs, in bytes.
  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }
  /// The most device commands of a batch of `count` runs.
  [[nodiscard]] std::size_t commands(std::size_t count) const noexcept;

  /// Enqueues runs. `externals` are those of one run after the other.
  /// @throws nothing_enqueued
  /// @throws error what a step refuses or a library fails with, after other parts were enqueued
  void enqueue(lane_libraries& libraries, std::span<void* const> externals, void* scratch) const;

 private:
  /// An input or output of which each run has a part.
  struct part {
    std::uint32_t alone = 0;    ///< number of the external of one run
    std::uint32_t stacked = 0;  ///< number of the external of the stacked runs
    std::size_t bytes = 0;      ///< of one run
    std::size_t offset = 0;     ///< of all in the scratch memory, for one run; times their number
  };
  struct piece {
    std::size_t count = 0;
    std::unique_ptr<const executable> runs{};
    memory_reservation charge{};
    std::vector<part> outputs{};
    std::size_t externals = 0;
    std::size_t scratch_offset = 0;
  };

  /// Memory for lists of addresses.
  struct lists {
    std::vector<void*> addresses{};
    std::vector<void*> stacked{};
  };

  void add_inputs(const detail::program_graph& of);
  /// The executable for `count` runs; nothing if the plan would exceed `limits`.
  [[nodiscard]] std::optional<piece> make(const detail::program_graph& of,
                                          lane_libraries& libraries, const plan_limits& limits,
                                          std::size_t count) const;
  /// The executable for the next piece of a batch with `left` runs; nullptr: one run alone.
  [[nodiscard]] const piece* next_piece(std::size_t left) const noexcept;
  void enqueue_piece(lane_libraries& libraries, const piece& of, std::span<void* const> externals,
                     void* scratch, lists& with) const;

  std::shared_ptr<const program_inference> inferred_;
  const executable& alone_;
  std::size_t externals_ = 0;  // of one run
  std::vector<part> inputs_;
  std::size_t input_bytes_ = 0;  // of one run in the scratch memory
  std::vector<piece> pieces_;    // of 2, 4, 8 … runs
  std::size_t workspace_bytes_ = 0;
};

}  // namespace sluice::operations
