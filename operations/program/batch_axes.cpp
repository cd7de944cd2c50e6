// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_graph.hpp"
#include "operations/program/stacked_runs.hpp"

#include <sluice/operations/batch_axes.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>

namespace sluice {
namespace {

using detail::program_graph;
using operations::given_output;

void require_axes(const program_graph& graph, std::span<const tensor_spec> inputs,
                  std::span<const std::optional<std::size_t>> axes) {
  graph.require_counts(inputs.size(), 0);
  if (axes.size() != inputs.size()) {
    throw invalid_argument("axes", "are " + std::to_string(axes.size()) +
                                       ", but the program takes " + std::to_string(inputs.size()) +
                                       " inputs");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!axes[i] || *axes[i] < inputs[i].rank()) continue;
    throw invalid_argument("axes", graph.inputs()[i] + " has the shape " +
                                       to_string(inputs[i].shape) + ", which has no axis " +
                                       std::to_string(*axes[i]));
  }
}

}  // namespace

batch_axes find_batch_axes(const program& what, std::span<const tensor_spec> inputs,
                           std::span<const std::optional<std::size_t>> axes) {
  if (!what) throw invalid_argument("what", "is no program");
  const auto& graph = *what.graph();
  require_axes(graph, inputs, axes);
  batch_axes result{.inputs = {axes.begin(), axes.end()}};
  const auto alone = operations::infer_program(graph, inputs, {},
                                               std::vector<given_output>(graph.outputs().size()));
  const auto is_given = [](const auto& axis) {
    return axis.has_value();
  };
  if (std::none_of(axes.begin(), axes.end(), is_given)) {
    result.reason = "no input has an axis along which runs may lie";
    return result;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (axes[i] && inputs[i].size() == 0) {
      result.reason = graph.inputs()[i] + " has no elements";
      return result;
    }
  }
  try {
    const auto found = operations::prove_axes(graph, alone, result.inputs);
    std::vector<std::size_t> outputs;
    for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
      const auto value = graph.outputs()[i];
      if (!found[value].varies) {
        result.reason = graph.output_name(i) + ": '" + graph.name_of(value) +
                        "' depends on no input of a run, so it has no part of each run";
        return result;
      }
      outputs.push_back(found[value].axis);
    }
    result.outputs = std::move(outputs);
  } catch (const error& e) {
    result.reason = e.what();
  }
  return result;
}

program program::with_batches(const batch_axes& axes, std::size_t max_in_batch) const {
  if (!graph_) throw invalid_argument("program", "is no program");
  if (!axes) throw invalid_argument("axes", axes.reason);
  if (axes.inputs.size() != inputs() || axes.outputs.size() != outputs()) {
    throw invalid_argument("axes", "are those of another program");
  }
  if (max_in_batch < 2) {
    throw invalid_argument("max_in_batch", "is " + std::to_string(max_in_batch) +
                                               ", but must be from 2 to " +
                                               std::to_string(program_graph::max_runs_in_batch));
  }
  auto batched = std::make_shared<const program_graph>(*graph_, axes.inputs, max_in_batch);
  for (std::size_t i = 0; batched->pads() && i < axes.outputs.size(); ++i) {
    if (axes.outputs[i] == 0) continue;
    throw invalid_argument(
        batched->output_name(i),
        "has the runs along axis " + std::to_string(axes.outputs[i]) + ", but an input is padded");
  }
  return program(std::move(batched));
}

}  // namespace sluice
