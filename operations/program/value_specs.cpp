// SPDX-License-Identifier: Apache-2.0
#include "operations/program/value_specs.hpp"

#include "operations/program/program_graph.hpp"
#include "operations/program/program_inference.hpp"

namespace sluice::detail {

std::vector<std::optional<tensor_spec>> specs_of_values(const program_graph& graph,
                                                        std::span<const tensor_spec> inputs) {
  graph.require_counts(inputs.size(), 0);
  const auto run = operations::infer_program(
      graph, inputs, {}, std::vector<operations::given_output>(graph.outputs().size()));
  std::vector<std::optional<tensor_spec>> specs;
  specs.reserve(run.values.size());
  for (const auto& value : run.values) {
    specs.push_back(value.root != operations::program_inference::located::nowhere
                        ? std::optional(value.spec())
                        : std::nullopt);
  }
  return specs;
}

}  // namespace sluice::detail
