// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"

#include <sluice/runtime/extents.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::operations {

/// The axis whose extent is `count` times as large, if all other extents are equal; nothing if
/// there is none.
[[nodiscard]] std::optional<std::size_t> proportional_axis(const extents& one,
                                                           const extents& several,
                                                           std::int64_t count) noexcept;

/// Several runs that are worked out as one.
struct stacked_inference {
  std::int64_t count = 0;
  const program_inference* runs = nullptr;
};

/// Where the runs lie in a value.
struct run_axis {
  bool varies = false;   ///< whether it depends on the run
  std::size_t axis = 0;  ///< along which the runs lie, if it does
};

/// Whether every step needs a rule.
enum class rule_policy : std::uint8_t {
  of_sluice,  ///< those of operations of sluice must hold; the author answers for other ones
  of_all,     ///< a step without a rule mixes the runs, and so does one without elements
};

/// Where the runs lie in each value, if no step and no view mixes runs that are computed as one.
/// `alone` is one run. `several` are some numbers of them, whose inputs lie one behind the other
/// along the axes `inputs`; nothing stands for an input that is the same for all.
///
/// The axis of a value along which the runs lie is the one whose extent is proportional to their
/// number. A step mixes them if it couples this axis of an operand (`inference::couple`), if its
/// result has no such axis, or has it elsewhere than the rule of the operation says (`batch_rule`).
/// A view mixes them if the part of a run is not the view of that run; see `axis_of_views`.
/// @throws error `invalid_argument` with the name of the step or view, and the axis
[[nodiscard]] std::vector<run_axis> axes_of_runs(const detail::program_graph& graph,
                                                 const program_inference& alone,
                                                 std::span<const stacked_inference> several,
                                                 std::span<const std::optional<std::size_t>> inputs,
                                                 rule_policy policy);

}  // namespace sluice::operations
