// SPDX-License-Identifier: Apache-2.0
#include "models/model_import.hpp"

#include "models/graph_program.hpp"
#include "models/optimizer.hpp"
#include "models/symbol_extents.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace sluice::models {

namespace {

/// States whether requests to a program batch, and lets them if they do.
void add_batches(std::span<const program_input> inputs, std::size_t values,
                 const model_options& options, model_program& compiled) {
  if (options.max_in_batch < 2) {
    compiled.batching.reason = "max_in_batch is " + std::to_string(options.max_in_batch);
    return;
  }
  compiled.batching = find_batching(compiled.program, values, inputs);
  if (!compiled.batching) return;
  // Such runs are launched alone; see `per_request`. Executables for several would be made in vain.
  if (compiled.inputs.size() + compiled.outputs.size() > max_tensors_in_batch) return;
  compiled.program = compiled.program.with_batches(compiled.batching, options.max_in_batch);
  compiled.max_in_batch = options.max_in_batch;
}

}  // namespace

model_import::model_import(const import_source& source,
                           const std::map<std::string, tensor_spec>& specs,
                           const std::map<std::string, host_tensor>& values, bool optimizes)
    : source_(source), scope_(budget_, optimizes) {
  symbol_extents symbols;
  for (const auto& input : source.inputs()) {
    const auto number = static_cast<std::uint32_t>(names_.size());
    names_.push_back(input.name);
    source.require_tensor(number);
    if (const auto bound = values.find(input.name); bound != values.end()) {
      if (specs.contains(input.name)) {
        throw invalid_argument(input.name, "is given by value and by its properties");
      }
      require_fit(input, bound->second.type(), bound->second.shape());
      symbols.add(input, bound->second.shape());
      visible_.emplace(input.name, value(scope_, bound->second, input.name));
      continue;
    }
    const auto spec = specs.find(input.name);
    if (spec == specs.end()) throw invalid_argument(input.name, "the input is not given");
    require_fit(input, spec->second.type, spec->second.shape);
    symbols.add(input, spec->second.shape);
    const auto added = scope_.input(input.name, spec->second);
    added.add_sources(scope_.sources().single(number));
    visible_.emplace(input.name, added);
    program_inputs_.push_back(input.name);
    input_specs_.push_back({&input, tensor_spec::row_major(spec->second.type, spec->second.shape)});
  }
  const auto is_input = [&](const auto& entry) {
    return std::find(names_.begin(), names_.end(), entry.first) != names_.end();
  };
  for (const auto& entry : specs) {
    if (!is_input(entry)) throw invalid_argument(entry.first, "is not an input of the model");
  }
  for (const auto& entry : values) {
    if (!is_input(entry)) throw invalid_argument(entry.first, "is not an input of the model");
  }
}

std::vector<value> model_import::import_outputs(model_precision precision, refused_nodes* refused) {
  std::vector<value> outputs = source_.import(
      {.scope = &scope_, .input_names = names_, .refused = refused, .precision = precision},
      std::move(visible_));
  scope_.name_steps("outputs");
  for (auto& output : outputs) output = scope_.as_output(output);
  return outputs;
}

model_program model_import::make_program(const model_options& options) && {
  constexpr std::size_t most_in_batch = 128;
  if (options.max_in_batch > most_in_batch) {
    throw invalid_argument("max_in_batch", "is " + std::to_string(options.max_in_batch) +
                                               ", but must be at most " +
                                               std::to_string(most_in_batch));
  }
  const auto outputs = import_outputs(options.precision);
  model_program compiled{.inputs = std::move(program_inputs_), .optimizations = optimize(outputs)};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    compiled.outputs.push_back(source_.outputs()[i].name);
    compiled.results.push_back(spec_of(outputs[i].layout()));
  }
  auto made = program_of(scope_.graph(), numbers_of(outputs));
  compiled.program = std::move(made.what);
  compiled.cost = made.cost;
  add_batches(input_specs_, made.value_count, options, compiled);
  return compiled;
}

std::vector<model_optimization> model_import::optimize(const std::vector<value>& outputs) {
  if (!scope_.optimizes()) return {};
  auto all = scope_.optimizations();
  for (auto& done : models::optimize(scope_.graph(), source_.derived(), numbers_of(outputs))) {
    all.push_back(std::move(done));
  }
  return all;
}

model_steps model_import::make_steps(const model_options& options) && {
  const auto outputs = import_outputs(options.precision);
  (void)optimize(outputs);
  return steps_of(scope_.graph(), numbers_of(outputs), std::move(program_inputs_), budget_);
}

std::vector<model_refusal> model_import::refusals() && {
  refused_nodes refused;
  try {
    (void)scope_.build(import_outputs(model_precision::original, &refused));
  } catch (const unknown_output&) {
    // The refused nodes are the reason.
  } catch (const error& e) {
    refused.add(e);
  }
  return std::move(refused.all());
}

}  // namespace sluice::models
