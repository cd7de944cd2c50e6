// SPDX-License-Identifier: Apache-2.0
#include "operations/program/batch_layout.hpp"

#include "operations/core/memory_order.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/stacked_runs.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>

namespace sluice::operations {
namespace {

using detail::program_graph;

// Of a run that is padded, in bytes: all inputs per request, and all outputs.
constexpr std::size_t max_input_bytes = std::size_t{64} << 20U;
constexpr std::size_t max_place_bytes = std::size_t{256} << 20U;
// The extents in an octave to which extents are rounded. Small runs leave a GPU idle, so that it
// helps more to have few executables and large batches of them.
constexpr std::int64_t extents_of_octave = 8;
constexpr std::int64_t extents_of_small_octave = 2;
constexpr std::int64_t small_bytes = std::int64_t{128} << 10U;  // where the octave begins

/// The distances between the extents to which those of the inputs are rounded; 0: it is not padded.
/// Equal extents are rounded alike.
std::vector<std::int64_t> steps_of(const program_graph& graph,
                                   const std::vector<tensor_spec>& inputs) {
  std::vector<std::int64_t> steps(inputs.size(), 0);
  std::int64_t bytes_of_one = 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (const auto axis = padded_axis(graph, i, inputs[i]); axis != 0) {
      const auto extent = inputs[i].shape[axis];
      bytes_of_one = std::max(bytes_of_one, static_cast<std::int64_t>(inputs[i].bytes()) / extent);
      // The octave that ends at a power of two contains it.
      steps[i] = static_cast<std::int64_t>(
          std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(extent - 1, 1))));
    }
  }
  for (auto& step : steps) {
    if (step == 0) continue;
    const bool is_small = step <= small_bytes / bytes_of_one;
    step =
        std::max<std::int64_t>(step / (is_small ? extents_of_small_octave : extents_of_octave), 1);
  }
  return steps;
}

std::size_t rows_of(const tensor_spec& spec, std::size_t axis) {
  std::size_t rows = 1;
  if (axis == 0) return rows;
  for (const auto d : dimensions_in_memory(spec)) {
    if (d == static_cast<std::int64_t>(axis)) break;
    rows *= static_cast<std::size_t>(spec.shape[static_cast<std::size_t>(d)]);
  }
  return rows;
}

batch_layout::part part_of(std::size_t number, std::size_t external, const tensor_spec& place,
                           std::size_t axis) {
  const auto rows = rows_of(place, axis);
  return {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(external), axis, rows,
          place.bytes() / rows};
}
/// Likewise without padding, of runs that lie along `axis`.
batch_layout::part part_along(std::size_t axis, std::size_t number, std::size_t external,
                              const tensor_spec& place) {
  auto part = part_of(number, external, place, 0);
  part.rows = run_rows(place, axis);
  part.row_bytes = place.bytes() / part.rows;
  part.interleaves = part.rows != 1;
  return part;
}

/// The axis in which two shapes differ; 0: none. Nothing if it is not one of those behind axis 0.
std::optional<std::size_t> different_axis(const extents& a, const extents& b) {
  if (a.size() != b.size()) return std::nullopt;
  std::size_t axis = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (i == 0 || axis != 0) return std::nullopt;
    axis = i;
  }
  return axis;
}

program_inference infer_new_outputs(const program_graph& graph,
                                    const std::vector<tensor_spec>& inputs) {
  return infer_program(graph, inputs, {}, std::vector<given_output>(graph.outputs().size()));
}

/// The least extents that are rounded to those of `inputs`.
std::vector<tensor_spec> least_of(const program_graph& graph, std::vector<tensor_spec> inputs) {
  const auto steps = steps_of(graph, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (steps[i] == 0) continue;
    auto shape = inputs[i].shape;
    shape[padded_axis(graph, i, inputs[i])] -= steps[i] - 1;
    inputs[i] = tensor_spec::row_major(inputs[i].type, shape);
  }
  return inputs;
}

/// Adds the places of runs with the padded inputs `layout.input_specs`.
/// @throws error what a step refuses
/// @throws error `unsupported` if the outputs cannot be padded
void add_places(const program_graph& graph, const program_inference& alone, batch_layout& layout) {
  const auto place = infer_new_outputs(graph, layout.input_specs);
  auto output_axes = require_parts(graph, place);
  std::vector<given_output> full_outputs;
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
    const auto& result = place.values[graph.outputs()[i]].layout;
    const auto order = memory_order(spec_of_output(graph, alone, i));
    full_outputs.push_back({.spec = spec_in_order(result.type(), result.shape(), order)});
  }
  auto inferred = infer_program(graph, layout.input_specs, {}, full_outputs);
  inferred.output_axes = std::move(output_axes);
  auto full_run = std::make_shared<const program_inference>(std::move(inferred));
  const auto least = infer_new_outputs(graph, least_of(graph, layout.input_specs));
  std::vector<batch_layout::part> outputs;
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
    const auto spec = spec_of_output(graph, *full_run, i);
    const auto axis = different_axis(spec_of_output(graph, least, i).shape, spec.shape);
    if (!axis || spec.size() == 0 || spec.bytes() > max_place_bytes - bytes) {
      throw error(errc::unsupported, "the outputs are not padded");
    }
    bytes += spec.bytes();
    outputs.push_back(part_of(i, external_of_output(graph, alone, i), spec, *axis));
  }
  for (std::size_t i = 0; i < layout.input_specs.size(); ++i) {
    if (!graph.is_per_request(i) || full_run->uses[i].ignored) continue;
    layout.inputs.push_back(
        part_of(i, i, layout.input_specs[i], padded_axis(graph, i, layout.input_specs[i])));
  }
  layout.key = "padded " + std::to_string(layout.externals);
  for (const auto& part : outputs) layout.key += ' ' + std::to_string(part.external);
  layout.key += full_run->key;
  layout.outputs = std::move(outputs);
  layout.full_run = std::move(full_run);
}

}  // namespace

std::uint32_t external_of_output(const program_graph& graph, const program_inference& run,
                                 std::uint32_t output) {
  const auto roots = graph.inputs().size() + graph.constants().size();
  return static_cast<std::uint32_t>(roots + run.memory_of_output[output]);
}

batch_layout layout_of(const program_graph& graph, std::shared_ptr<const program_inference> alone) {
  batch_layout layout;
  layout.externals = alone->uses.size();
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    // No address is known of an input that no step reads.
    const auto axis = alone->uses[i].ignored ? std::nullopt : graph.run_axis(i);
    if (axis) layout.inputs.push_back(part_along(*axis, i, i, alone->inputs[i]));
  }
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
    layout.outputs.push_back(part_along(alone->output_axes[i], i,
                                        external_of_output(graph, *alone, i),
                                        spec_of_output(graph, *alone, i)));
  }
  layout.full_run = std::move(alone);
  return layout;
}

std::optional<std::vector<tensor_spec>> padded_inputs(const program_graph& graph,
                                                      const program_inference& alone) {
  auto inputs = alone.inputs;
  const auto steps = steps_of(graph, inputs);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!graph.is_per_request(i)) continue;
    if (inputs[i].bytes() > max_input_bytes) return std::nullopt;
    auto shape = inputs[i].shape;
    if (steps[i] != 0) {
      auto& extent = shape[padded_axis(graph, i, inputs[i])];
      extent = (extent + steps[i] - 1) / steps[i] * steps[i];
    }
    inputs[i] = tensor_spec::row_major(inputs[i].type, shape);
    bytes += inputs[i].bytes();
    if (bytes > max_input_bytes) return std::nullopt;
  }
  return inputs;
}

bool has_layout(const program_graph& graph, const program_inference& alone,
                const std::vector<tensor_spec>& inputs, const batch_layout& layout) {
  if (layout.externals != alone.uses.size() || layout.input_specs != inputs) return false;
  return std::all_of(layout.outputs.begin(), layout.outputs.end(), [&](const auto& part) {
    const auto place = spec_of_output(graph, *layout.full_run, part.number);
    return part.external == external_of_output(graph, alone, part.number) &&
           lies_in(spec_of_output(graph, alone, part.number), dimensions_in_memory(place));
  });
}

batch_layout padded_layout(const program_graph& graph, const program_inference& alone,
                           const std::vector<tensor_spec>& inputs) {
  batch_layout layout;
  layout.externals = alone.uses.size();
  layout.input_specs = inputs;
  try {
    add_places(graph, alone, layout);
  } catch (const error&) {
    // Such runs are computed as they are. If a step refuses these, too, that is the error.
  }
  return layout;
}

bool fits(const program_graph& graph, const program_inference& alone,
          const batch_layout& layout) noexcept {
  return layout.full_run != nullptr &&
         std::all_of(layout.outputs.begin(), layout.outputs.end(), [&](const auto& part) {
           const auto& shape = alone.values[graph.outputs()[part.number]].layout.shape();
           const auto& place = layout.full_run->values[graph.outputs()[part.number]].layout.shape();
           if (shape.size() != place.size()) return false;
           for (std::size_t i = 0; i < shape.size(); ++i) {
             if (shape[i] > place[i] || (shape[i] != place[i] && i != part.axis)) return false;
           }
           return true;
         });
}

std::vector<std::uint32_t> row_bytes(const program_graph& graph, const program_inference& alone,
                                     const batch_layout& layout) {
  std::vector<std::uint32_t> result;
  result.reserve(layout.inputs.size() + layout.outputs.size());
  for (const auto& part : layout.inputs) {
    result.push_back(static_cast<std::uint32_t>(alone.inputs[part.number].bytes() / part.rows));
  }
  for (const auto& part : layout.outputs) {
    result.push_back(
        static_cast<std::uint32_t>(spec_of_output(graph, alone, part.number).bytes() / part.rows));
  }
  return result;
}

}  // namespace sluice::operations
