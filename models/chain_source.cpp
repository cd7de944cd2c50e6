// SPDX-License-Identifier: Apache-2.0
#include "models/chain_source.hpp"

#include "models/graph_import.hpp"
#include "models/symbol_extents.hpp"

#include <sluice/models/model.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace sluice::models {
namespace {

/// Adds the contents of a model to those of a chain.
void add_summary(model_summary& sum, const model_summary& part) {
  sum.ir_version = std::max(sum.ir_version, part.ir_version);
  for (const auto& opset : part.opsets) {
    const auto is_same = [&](const model_opset& known) {
      return known.domain == opset.domain && known.version == opset.version;
    };
    if (std::none_of(sum.opsets.begin(), sum.opsets.end(), is_same)) sum.opsets.push_back(opset);
  }
  for (const auto& entry : part.operators) {
    const auto known = std::find_if(
        sum.operators.begin(), sum.operators.end(),
        [&](const model_operator& o) { return o.domain == entry.domain && o.name == entry.name; });
    if (known != sum.operators.end()) {
      known->nodes += entry.nodes;
    } else {
      sum.operators.push_back(entry);
    }
  }
  sum.parameters += part.parameters;
  sum.parameter_bytes += part.parameter_bytes;
}

}  // namespace

chain_source::chain_source(const model_chain& description)
    : name_(description.name), connections_(connect(description)) {
  for (const auto& step : description.steps) {
    sources_.push_back({.label = label_of(step), .name = step.name, .source = step.what.source_});
  }
}

model_summary chain_source::summary() const {
  model_summary sum;
  for (const auto& step : sources_) add_summary(sum, step.source->summary());
  std::sort(sum.operators.begin(), sum.operators.end(), [](const auto& a, const auto& b) {
    return std::tie(b.nodes, a.name, a.domain) < std::tie(a.nodes, b.name, b.domain);
  });
  return sum;
}

void chain_source::require_tensor(std::size_t input) const {
  for (const auto& step : connections_.steps) {
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] == input) sources_[step.step].source->require_tensor(i);
    }
  }
}

results chain_source::import(const import_target& target,
                             std::map<std::string, value> inputs) const {
  known_values values;
  for (const auto& input : connections_.declared_inputs) {
    values.emplace_back(std::move(inputs.at(input.name)));
  }
  values.resize(connections_.value_count);
  for (const auto& step : connections_.steps) import_step(step, target, values);
  results outputs;
  for (const auto number : connections_.outputs) {
    if (!values[number]) throw unknown_output();
    outputs.push_back(*values[number]);
  }
  return outputs;
}

void chain_source::import_step(const connected_step& step, const import_target& target,
                               known_values& values) const {
  const auto& [label, name, source] = sources_[step.step];
  const auto refused_before = target.refused != nullptr ? target.refused->all().size() : 0;
  try {
    add_results(step, *source, target, values);
  } catch (const unknown_output&) {
    // The refused nodes are the reason.
  } catch (const unbound_inputs& e) {
    throw unbound_inputs(label + e.what(), e.names(), e.where());
  } catch (const error& e) {
    const error labelled(e.code(), label + e.what(), e.status(), e.where());
    if (target.refused == nullptr) throw labelled;
    target.refused->add(labelled);
    return;
  }
  if (target.refused == nullptr) return;
  auto& refused = target.refused->all();
  for (auto i = refused_before; i < refused.size(); ++i) refused[i].node.insert(0, name + "/");
}

void chain_source::add_results(const connected_step& step, const import_source& source,
                               const import_target& target, known_values& values) {
  symbol_extents symbols;
  std::map<std::string, value> inputs;
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const auto& declaration = source.inputs()[i];
    const auto& given = values[step.inputs[i]];
    if (!given) return;
    source.require_tensor(i);
    require_fit(declaration, given->type(), given->shape());
    symbols.add(declaration, given->shape());
    inputs.emplace(declaration.name, *given);
  }
  const auto outputs = source.import(target, std::move(inputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (step.outputs[i]) values[*step.outputs[i]] = outputs[i];
  }
}

void chain_source::drop_unused_constants() const noexcept {
  import_source::drop_unused_constants();
  for (const auto& step : sources_) step.source->drop_unused_constants();
}

}  // namespace sluice::models
