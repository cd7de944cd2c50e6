// SPDX-License-Identifier: Apache-2.0
#include "operations/program/output_layout.hpp"

#include "operations/core/memory_order.hpp"

#include <sluice/runtime/error.hpp>

#include <cstddef>
#include <utility>

namespace sluice::operations {
namespace {

using detail::program_graph;

/// The properties of the memory of an output that is `result` otherwise. Nothing if the output may
/// lie as the result does.
std::optional<tensor_spec> spec_of_memory(const given_output& output, const tensor_spec& result) {
  if (output.overlaps_input || (!output.spec && !output.is_downloaded)) return std::nullopt;
  auto spec = tensor_spec::row_major(result.type, result.shape);
  if (output.spec) {
    if (output.spec->type != result.type || output.spec->shape != result.shape) {
      return std::nullopt;
    }
    spec.strides = output.spec->strides;
  }
  const bool has_gaps = !lies_in(spec, dimensions_in_memory(spec));
  return has_gaps || spec.strides == result.strides ? std::nullopt : std::optional(spec);
}

/// Whether there is a view of a value, which may be checked although no step reads it.
bool is_viewed(const program_graph& graph, std::uint32_t value) {
  for (auto i = value + 1; i < graph.values().size(); ++i) {
    if (graph.viewed(i) == value) return true;
  }
  return false;
}

bool has_more_copies(const program_inference::step& step, const program_inference::step& other) {
  for (std::size_t i = 0; i < step.uses.size(); ++i) {
    if (step.uses[i].packed && !other.uses[i].packed) return true;
  }
  return false;
}

}  // namespace

void lie_as_output(const program_graph& graph, std::uint32_t number,
                   const std::vector<given_output>& outputs,
                   std::span<const std::optional<tensor_spec>> specs,
                   std::span<const scalar> scalars, program_inference::step& found) {
  const auto& step = graph.steps()[number];
  if (step.outputs.size() != 1) return;
  const auto operand = step.outputs.front();
  const auto value = graph.results()[step.first_result].value;
  const auto& use = graph.use_of(value);
  if (specs[operand] || !found.uses[operand].spec || use.steps != 0 || use.outputs != 1 ||
      graph.outputs()[use.output] != value) {
    return;
  }
  const auto spec = spec_of_memory(outputs[use.output], *found.uses[operand].spec);
  if (!spec || is_viewed(graph, value)) return;
  std::vector<std::optional<tensor_spec>> with_output(specs.begin(), specs.end());
  with_output[operand] = spec;
  program_inference::step direct;
  direct.descriptor = found.descriptor;
  direct.uses.resize(specs.size());
  try {
    step.operation->infer(with_output, scalars, direct.call, direct.uses);
  } catch (const error&) {
    return;  // the operation does not write there
  }
  if (direct.uses[operand].access == access_kind::write && !has_more_copies(direct, found)) {
    found = std::move(direct);
  }
}

}  // namespace sluice::operations
