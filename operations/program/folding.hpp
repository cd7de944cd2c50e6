// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"

#include <sluice/runtime/device.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice::operations {

/// Where a constant in host memory, or the result of a step of constants, is on a device.
struct constant_place {
  /// 0: in the block of the program; otherwise the number of a shared constant, plus 1.
  std::uint32_t block = 0;
  std::size_t offset = 0;  ///< in this block, in bytes
};

/// Steps whose operands are all constants in host memory, or results of such steps. They
/// are computed once, and their results are constants of the executables of a device.
///
/// Equal for all inferences of a program, because the constants are.
struct folding {
  struct step {
    std::uint32_t number = 0;
    std::size_t offset = 0;  ///< of its result, in the block of the program
  };
  std::vector<step> steps{};  ///< in order
  std::size_t bytes = 0;      ///< of the block of the program, with the results

  /// Where the result of a step is; nothing if each run computes it.
  [[nodiscard]] std::optional<std::size_t> offset_of(std::uint32_t number) const noexcept;
  /// Where a value is in the memory of the constants; nothing if it is not there.
  [[nodiscard]] std::optional<constant_place> place_of_value(const detail::program_graph& graph,
                                                             const program_inference& inferred,
                                                             std::uint32_t value) const;
};

/// Finds these steps. Their results are no outputs and take at most 16 MiB each, and 64 MiB
/// together, and their work is short. They find no errors and have no plans.
///
/// On a host device they have no library objects. On a GPU the library objects are only kernels,
/// because the planner would need a second handle of a library, with a workspace. The planner
/// enqueues the steps while the owner of the lane launches, so they can be captured, too.
[[nodiscard]] folding fold(const detail::program_graph& graph, const program_inference& inferred,
                           device_kind kind);
/// No such steps.
[[nodiscard]] folding unfolded(const detail::program_graph& graph);

}  // namespace sluice::operations
