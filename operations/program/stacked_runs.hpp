// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"
#include "operations/program/run_axes.hpp"

#include <sluice/operations/tensor_spec.hpp>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice::operations {

/// Why a run like `alone` is launched alone; empty if it may be part of a batch.
[[nodiscard]] std::string_view reason_alone(const detail::program_graph& graph,
                                            const program_inference& alone);
/// Whether a run like `alone` may be part of a batch. If not, it is launched alone.
[[nodiscard]] inline bool may_share_batch(const detail::program_graph& graph,
                                          const program_inference& alone) {
  return reason_alone(graph, alone).empty();
}
/// Checks that each output of two and of three runs together has a part for each of them, and that
/// no step mixes them. Returns the axis of each output along which the runs lie; that of all is 0
/// in a program that pads its inputs.
/// @throws error what a step refuses for several runs, with its name
/// @throws error `invalid_argument` with the name of an output that is not per request, or of a
/// step or view that mixes the runs
[[nodiscard]] std::vector<std::size_t> require_parts(const detail::program_graph& graph,
                                                     const program_inference& alone);
/// Where the runs lie in each value, if two and three runs like `alone` together have a part of
/// each of them, and each step has a rule that says so. `axes` are those of the inputs.
/// @throws error what a step refuses for several runs, with its name
/// @throws error `invalid_argument` with the name of a step or view that mixes the runs
[[nodiscard]] std::vector<run_axis> prove_axes(const detail::program_graph& graph,
                                               const program_inference& alone,
                                               const std::vector<std::optional<std::size_t>>& axes);
/// The axis along which an input of a run is padded; 0: none.
/// @throws error `invalid_argument` with the name of the input if it has no such axis
[[nodiscard]] std::size_t padded_axis(const detail::program_graph& graph, std::size_t input,
                                      const tensor_spec& spec);
/// Checks what the author of a program says of its inputs and outputs, for a run of any kind.
/// Returns the axes of the outputs, as `require_parts` does; none if the run is launched alone.
/// @throws error as `require_parts`; `invalid_argument` with the name of an input without the axis
///   along which it is padded, or along which runs lie
[[nodiscard]] std::vector<std::size_t> check_marks(const detail::program_graph& graph,
                                                   const program_inference& alone);
/// The elements of an input or output of one run without gaps lie in rows: those behind one index
/// of the axes in front of `axis`. Returns their number. In the memory of several runs, which lie
/// along `axis`, each row of a run stands behind that of the run before. There is one row unless
/// the tensor is in row-major order.
[[nodiscard]] std::size_t run_rows(const tensor_spec& spec, std::size_t axis);
/// Works out `count` runs like `alone` as one, whose outputs lie as `run_rows` says. Only if
/// `may_share_batch`.
/// @throws error what a step refuses, with its name
/// @throws error `invalid_argument` if this number of runs is mixed, though two and three are not
[[nodiscard]] program_inference stacked_runs(const detail::program_graph& graph,
                                             const program_inference& alone, std::size_t count);

}  // namespace sluice::operations
