// SPDX-License-Identifier: Apache-2.0
#include "operations/program/stacked_runs.hpp"

#include "operations/core/memory_order.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/run_axes.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/tensor_layout.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace sluice::operations {
namespace {

using detail::program_graph;

tensor_spec stack(const tensor_spec& spec, std::int64_t count, std::size_t axis = 0) {
  auto shape = spec.shape;
  shape[axis] *= count;
  return tensor_spec::row_major(spec.type, shape);
}
/// Likewise of an output, whose other dimensions keep their order in memory.
tensor_spec stack_in_order(const tensor_spec& spec, std::int64_t count) {
  auto stacked = stack(spec, count);
  if (spec.is_contiguous()) return stacked;
  stacked.strides = spec.strides;
  stacked.strides[0] = static_cast<std::int64_t>(spec.size()) / spec.shape[0];
  stacked.strides = tensor_layout(stacked.type, stacked.shape, stacked.strides).strides();
  return stacked;
}

bool has_parts(const tensor_spec& spec) {
  return spec.rank() != 0 && spec.size() != 0 && spec.is_contiguous();
}
/// Whether the elements have no gaps, and those of an index of axis 0 lie together.
bool has_parts_in_order(const tensor_spec& spec) {
  if (has_parts(spec)) return true;
  const auto order = dimensions_in_memory(spec);
  return !order.empty() && spec.size() != 0 && lies_in(spec, order) &&
         (spec.shape[0] == 1 || order[0] == 0);
}

/// Whether the elements of an output are all that there is in its memory.
bool is_whole(const program_graph& graph, const program_inference& alone, std::uint32_t output) {
  const auto& memory = alone.written[alone.memory_of_output[output]];
  if (memory.updates_input) return false;
  const auto spec = spec_of_output(graph, alone, output);
  if (memory.output) return has_parts_in_order(spec);
  const auto& value = alone.values[graph.outputs()[output]];
  return value.layout.offset() == 0 && has_parts_in_order(spec) &&
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
    if (!graph.is_per_request(i) || alone.inputs[i].rank() != 1) continue;
    return "; axis 0 of an input per request counts the runs, and " + graph.inputs()[i] +
           " has the shape " + to_string(alone.inputs[i].shape) + " in one run";
  }
  return {};
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
/// `count` runs, whose inputs per request lie one behind the other along axis 0.
run_stack marked_runs(const program_graph& graph, const program_inference& alone,
                      std::int64_t count) {
  run_stack runs{alone, count, std::vector<std::optional<std::size_t>>(alone.inputs.size())};
  for (std::size_t i = 0; i < runs.axes.size(); ++i) {
    if (graph.is_per_request(i)) runs.axes[i] = 0;
  }
  return runs;
}

program_inference infer_stack(const program_graph& graph, const run_stack& runs) {
  return infer_program(graph, stacked_inputs(runs), {},
                       std::vector<given_output>(graph.outputs().size()), &runs);
}

}  // namespace

void require_parts(const program_graph& graph, const program_inference& alone) {
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
      const auto single_spec = alone.values[graph.outputs()[i]].spec();
      const auto stacked_spec = inferred.values[graph.outputs()[i]].spec();
      if (single_spec.rank() != 0 && stacked_spec.shape == stack(single_spec, runs.count).shape)
        continue;
      throw invalid_argument(graph.output_name(i),
                             "is not per request: its shape is " + to_string(single_spec.shape) +
                                 " for one run and " + to_string(stacked_spec.shape) + " for " +
                                 std::to_string(runs.count) + "; " + step_of_output(graph, i) +
                                 " computes it" + about_vectors(graph, alone));
    }
  }
  const std::array pieces{stacked_inference{2, &several[0]}, stacked_inference{3, &several[1]}};
  (void)axes_of_runs(graph, alone, pieces, runs.axes, rule_policy::of_sluice);
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
    return "an output is a part of a result, updates an input, has gaps, or does not lie in memory "
           "with axis 0 outermost";
  }
  return {};
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

void check_marks(const program_graph& graph, const program_inference& alone) {
  std::size_t bytes = 0;
  bool have_parts = graph.max_in_batch() > 1 && alone.varying.empty();
  for (std::size_t i = 0; i < alone.inputs.size(); ++i) {
    if (!graph.is_per_request(i)) continue;
    const auto& input = alone.inputs[i];
    (void)padded_axis(graph, i, input);
    have_parts = have_parts && input.rank() != 0 && input.size() != 0 &&
                 input.bytes() <= max_trial_input_bytes / 2 - bytes;
    if (have_parts) bytes += input.bytes();
  }
  if (have_parts) require_parts(graph, alone);
}

program_inference stacked_runs(const program_graph& graph, const program_inference& alone,
                               std::size_t count) {
  const auto members = static_cast<std::int64_t>(count);
  std::vector<given_output> outputs;
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
    outputs.push_back({.spec = stack_in_order(spec_of_output(graph, alone, i), members)});
  }
  const auto runs = marked_runs(graph, alone, members);
  auto stacked =
      infer_program(graph, stacked_inputs(runs), {}, outputs, members > 1 ? &runs : nullptr);
  if (members == 1) return stacked;
  const stacked_inference pieces{members, &stacked};
  (void)axes_of_runs(graph, alone, std::span(&pieces, 1), runs.axes, rule_policy::of_sluice);
  return stacked;
}

}  // namespace sluice::operations
