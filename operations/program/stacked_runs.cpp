// SPDX-License-Identifier: Apache-2.0
#include "operations/program/stacked_runs.hpp"

#include "operations/core/memory_order.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/run_axes.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/tensor_layout.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace sluice::operations {
namespace {

using detail::program_graph;

tensor_spec stack(const tensor_spec& spec, std::int64_t count, std::size_t axis) {
  auto shape = spec.shape;
  shape[axis] *= count;
  return tensor_spec::row_major(spec.type, shape);
}
/// Likewise of an output, whose other dimensions keep their order in memory. See `run_rows`.
tensor_spec stack_in_order(const tensor_spec& spec, std::int64_t count, std::size_t axis) {
  auto stacked = stack(spec, count, axis);
  if (spec.is_contiguous()) return stacked;
  stacked.strides = spec.strides;
  stacked.strides[axis] = static_cast<std::int64_t>(spec.size()) / spec.shape[axis];
  stacked.strides = tensor_layout(stacked.type, stacked.shape, stacked.strides).strides();
  return stacked;
}

bool has_parts(const tensor_spec& spec) {
  return spec.rank() != 0 && spec.size() != 0 && spec.is_contiguous();
}
/// Whether the elements have no gaps, and lie in row-major order or with `axis` outermost.
bool has_parts_in_order(const tensor_spec& spec, std::size_t axis) {
  if (has_parts(spec)) return true;
  const auto order = dimensions_in_memory(spec);
  return !order.empty() && spec.size() != 0 && lies_in(spec, order) &&
         (spec.shape[axis] == 1 || order[0] == static_cast<std::int64_t>(axis));
}

/// Whether the elements of an output are all that there is in its memory.
bool is_whole(const program_graph& graph, const program_inference& alone, std::uint32_t output) {
  const auto& memory = alone.written[alone.memory_of_output[output]];
  if (memory.updates_input) return false;
  const auto spec = spec_of_output(graph, alone, output);
  const auto axis = alone.output_axes[output];
  if (memory.output) return has_parts_in_order(spec, axis);
  const auto& value = alone.values[graph.outputs()[output]];
  return value.layout.offset() == 0 && has_parts_in_order(spec, axis) &&
         spec.bytes() == memory.spec.bytes();
}

// All inputs per request of two runs, in bytes.
constexpr std::size_t max_trial_input_bytes = std::size_t{256} << 20U;

/// Why the inputs and outputs of a run do not fit a batch; empty if they do.
std::string_view reason_of_operands(const program_graph& graph, const program_inference& alone) {
  if (graph.max_in_batch() < 2) return "the program is built with max_in_batch 1";
  if (!alone.varying.empty()) return "the runs take scalars";
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < alone.inputs.size(); ++i) {
    if (!graph.is_per_request(i)) continue;
    if (!has_parts(alone.inputs[i])) {
      return "an input per request has gaps, no elements or no dimension";
    }
    bytes += alone.inputs[i].bytes();
    if (bytes > max_trial_input_bytes / 2) return "the inputs per request exceed 128 MiB";
  }
  for (std::uint32_t i = 0; i < alone.outputs.size(); ++i) {
    const auto& output = alone.outputs[i];
    if (output.overlaps_input || !output.same_as.empty()) {
      return "an output shares memory with an input";
    }
  }
  return {};
}

bool all_are_whole(const program_graph& graph, const program_inference& alone) {
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
    if (!is_whole(graph, alone, i)) return false;
  }
  return true;
}

/// What may be wrong with an input: the author took axis 0 for data, but it counts the runs.
std::string about_vectors(const program_graph& graph, const program_inference& alone) {
  for (std::size_t i = 0; i < alone.inputs.size(); ++i) {
    if (graph.run_axis(i) != std::size_t{0} || alone.inputs[i].rank() != 1) continue;
    return "; axis 0 of an input per request counts the runs, and " + graph.inputs()[i] +
           " has the shape " + to_string(alone.inputs[i].shape) + " in one run";
  }
  return {};
}

/// @throws error `invalid_argument` with the name of an input per request that has no axis along
/// which the runs lie, unless that is axis 0: it is launched alone
void require_run_axis(const program_graph& graph, std::size_t input, const tensor_spec& spec) {
  const auto axis = graph.run_axis(input).value_or(0);
  if (axis == 0 || axis < spec.rank()) return;
  throw invalid_argument(graph.inputs()[input], "is per request along axis " +
                                                    std::to_string(axis) + ", but its shape is " +
                                                    to_string(spec.shape));
}

/// The step that computes an output, in words.
std::string step_of_output(const program_graph& graph, std::size_t output) {
  const auto& value = graph.values()[graph.viewed(graph.outputs()[output])];
  return "step '" + graph.steps()[graph.results()[value.source].step].name + "'";
}

/// The inputs of the runs of a stack together.
std::vector<tensor_spec> stacked_inputs(const run_stack& runs) {
  auto inputs = runs.alone.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (runs.axes[i]) inputs[i] = stack(inputs[i], runs.count, *runs.axes[i]);
  }
  return inputs;
}
/// `count` runs, whose inputs per request lie one behind the other along the axes of their marks.
run_stack marked_runs(const program_graph& graph, const program_inference& alone,
                      std::int64_t count) {
  run_stack runs{alone, count};
  for (std::size_t i = 0; i < alone.inputs.size(); ++i) runs.axes.push_back(graph.run_axis(i));
  return runs;
}

/// The axis of an output whose extent is proportional to the number of runs; nothing if there is
/// none, or if the program pads its inputs and the axis is not 0. The axis of an output without
/// elements is 0, if its extent may be.
std::optional<std::size_t> axis_of_output(const program_graph& graph, const extents& one,
                                          const extents& several, std::int64_t count) {
  if (one.empty()) return std::nullopt;
  auto along_first = one;
  along_first[0] *= count;
  if (several == along_first) return 0;
  return graph.pads() ? std::nullopt : proportional_axis(one, several, count);
}

/// Checks that the runs lie along `axes` in the outputs.
/// @throws error `invalid_argument` with the name of an output of which runs have no part there
void require_output_axes(const program_graph& graph, const program_inference& alone,
                         const std::vector<run_axis>& found, const std::vector<std::size_t>& axes) {
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
    const auto value = graph.outputs()[i];
    if (alone.values[value].layout.empty()) continue;  // such runs are launched alone
    if (found[value].varies && found[value].axis == axes[i]) continue;
    throw invalid_argument(
        graph.output_name(i),
        "is not per request: no run has a part of it along axis " + std::to_string(axes[i]));
  }
}

program_inference infer_stack(const program_graph& graph, const run_stack& runs) {
  return infer_program(graph, stacked_inputs(runs), {},
                       std::vector<given_output>(graph.outputs().size()), &runs);
}

}  // namespace

std::vector<std::size_t> require_parts(const program_graph& graph, const program_inference& alone) {
  std::vector<std::size_t> axes(graph.outputs().size());
  // Rounding may make the extents of a program whose runs are not independent fit for two runs, but
  // seldom for another number as well.
  std::vector<program_inference> several;
  auto runs = marked_runs(graph, alone, 2);
  for (; runs.count <= 3; ++runs.count) {
    const auto& inferred = several.emplace_back([&] {
      try {
        return infer_stack(graph, runs);
      } catch (const error& e) {
        throw error(e.code(), std::string(e.what()) + ", when " + std::to_string(runs.count) +
                                  " runs are computed as one" + about_vectors(graph, alone));
      }
    }());
    for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
      const auto& single_shape = alone.values[graph.outputs()[i]].layout.shape();
      const auto& stacked_shape = inferred.values[graph.outputs()[i]].layout.shape();
      const auto axis = axis_of_output(graph, single_shape, stacked_shape, runs.count);
      if (axis && (runs.count == 2 || axes[i] == *axis)) {
        axes[i] = *axis;
        continue;
      }
      throw invalid_argument(graph.output_name(i),
                             "is not per request: its shape is " + to_string(single_shape) +
                                 " for one run and " + to_string(stacked_shape) + " for " +
                                 std::to_string(runs.count) + "; " + step_of_output(graph, i) +
                                 " computes it" + about_vectors(graph, alone));
    }
  }
  const std::array pieces{stacked_inference{2, &several[0]}, stacked_inference{3, &several[1]}};
  const auto found = axes_of_runs(graph, alone, pieces, runs.axes, rule_policy::of_sluice);
  require_output_axes(graph, alone, found, axes);
  return axes;
}

std::vector<run_axis> prove_axes(const program_graph& graph, const program_inference& alone,
                                 const std::vector<std::optional<std::size_t>>& axes) {
  const auto two = infer_stack(graph, {alone, 2, axes});
  const auto three = infer_stack(graph, {alone, 3, axes});
  const std::array pieces{stacked_inference{2, &two}, stacked_inference{3, &three}};
  return axes_of_runs(graph, alone, pieces, axes, rule_policy::of_all);
}

std::string_view reason_alone(const program_graph& graph, const program_inference& alone) {
  if (const auto reason = reason_of_operands(graph, alone); !reason.empty()) return reason;
  if (!all_are_whole(graph, alone)) {
    const bool is_first = std::all_of(alone.output_axes.begin(), alone.output_axes.end(),
                                      [](auto axis) { return axis == 0; });
    return is_first
               ? "an output is a part of a result, updates an input, has gaps, or does not lie "
                 "in memory with axis 0 outermost"
               : "an output is a part of a result, updates an input, has gaps, or lies in "
                 "memory neither in row-major order nor with the axis of the runs outermost";
  }
  return {};
}

std::size_t run_rows(const tensor_spec& spec, std::size_t axis) {
  if (!spec.is_contiguous()) return 1;
  std::size_t rows = 1;
  for (std::size_t d = 0; d < axis; ++d) rows *= static_cast<std::size_t>(spec.shape[d]);
  return rows;
}

std::size_t padded_axis(const program_graph& graph, std::size_t input, const tensor_spec& spec) {
  const auto stated = graph.padded_axis(input);
  if (stated == 0) return 0;
  const auto rank = static_cast<int>(spec.rank());
  const auto axis = stated < 0 ? stated + rank : stated;
  if (axis > 0 && axis < rank) return static_cast<std::size_t>(axis);
  throw invalid_argument(graph.inputs()[input],
                         "is padded along axis " + std::to_string(stated) + ", but its shape is " +
                             to_string(spec.shape) +
                             (axis == 0 ? ", whose axis 0 counts the parts" : ""));
}

std::vector<std::size_t> check_marks(const program_graph& graph, const program_inference& alone) {
  std::size_t bytes = 0;
  bool have_parts = graph.max_in_batch() > 1 && alone.varying.empty();
  for (std::size_t i = 0; i < alone.inputs.size(); ++i) {
    if (!graph.is_per_request(i)) continue;
    const auto& input = alone.inputs[i];
    require_run_axis(graph, i, input);
    (void)padded_axis(graph, i, input);
    have_parts = have_parts && input.rank() != 0 && input.size() != 0 &&
                 input.bytes() <= max_trial_input_bytes / 2 - bytes;
    if (have_parts) bytes += input.bytes();
  }
  if (!have_parts) return {};
  return require_parts(graph, alone);
}

program_inference stacked_runs(const program_graph& graph, const program_inference& alone,
                               std::size_t count) {
  const auto members = static_cast<std::int64_t>(count);
  std::vector<given_output> outputs;
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
    outputs.push_back(
        {.spec = stack_in_order(spec_of_output(graph, alone, i), members, alone.output_axes[i])});
  }
  const auto runs = marked_runs(graph, alone, members);
  auto stacked =
      infer_program(graph, stacked_inputs(runs), {}, outputs, members > 1 ? &runs : nullptr);
  if (members == 1) return stacked;
  const stacked_inference pieces{members, &stacked};
  const auto found =
      axes_of_runs(graph, alone, std::span(&pieces, 1), runs.axes, rule_policy::of_sluice);
  require_output_axes(graph, alone, found, alone.output_axes);
  return stacked;
}

}  // namespace sluice::operations
