// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_graph.hpp"
#include "operations/program/program_inference.hpp"

#include <sluice/operations/program_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

void require_names(const char* list, const std::vector<model_value>& values, std::size_t count) {
  if (values.size() != count) {
    throw invalid_argument(list, "are " + std::to_string(values.size()) + ", but the program has " +
                                     std::to_string(count));
  }
  std::set<std::string_view> names;
  for (const auto& value : values) {
    if (value.name.empty()) throw invalid_argument(list, "one has no name");
    if (!names.insert(value.name).second) {
      throw invalid_argument(list, "two have the name " + value.name);
    }
  }
}

/// @throws error `invalid_argument` if `name` is not that of an input
void require_input(const std::vector<model_value>& inputs, const std::string& name) {
  if (std::ranges::find(inputs, name, &model_value::name) == inputs.end()) {
    throw invalid_argument(name, "is not an input of the program");
  }
}

}  // namespace

program_source::program_source(program what, std::vector<model_value> inputs,
                               std::vector<model_value> outputs)
    : program_(std::move(what)), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  if (!program_) throw invalid_argument("what", "is no program");
  if (program_.scalars() != 0) throw invalid_argument("what", "the program takes scalars");
  require_names("inputs", inputs_, program_.inputs());
  require_names("outputs", outputs_, program_.outputs());
}

model_program program_source::program_for(const std::map<std::string, tensor_spec>& specs,
                                          const std::map<std::string, host_tensor>& values,
                                          const model_options& /*options*/) const {
  for (const auto& [name, value] : values) {
    require_input(inputs_, name);
    throw invalid_argument(name, "cannot be bound by value: the program exists already");
  }
  for (const auto& [name, spec] : specs) require_input(inputs_, name);
  const auto& graph = *program_.graph();
  model_program result{.program = program_, .max_in_batch = graph.max_in_batch()};
  std::vector<tensor_spec> rows;
  for (const auto& input : inputs_) {
    const auto spec = specs.find(input.name);
    if (spec == specs.end()) throw invalid_argument(input.name, "the input is not given");
    require_fit(input, spec->second.type, spec->second.shape);
    rows.push_back(tensor_spec::row_major(spec->second.type, spec->second.shape));
    result.inputs.push_back(input.name);
  }
  const auto run = operations::infer_program(
      graph, rows, {}, std::vector<operations::given_output>(outputs_.size()));
  for (std::uint32_t i = 0; i < outputs_.size(); ++i) {
    result.outputs.push_back(outputs_[i].name);
    result.results.push_back(operations::spec_of_output(graph, run, i));
  }
  result.batching.reason = "the program was built with its own options";
  return result;
}

}  // namespace sluice
