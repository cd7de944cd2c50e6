// SPDX-License-Identifier: Apache-2.0
#include "models/chain_connections.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace sluice::models {
namespace {

error chain_error(const std::string& text) {
  return {errc::invalid_argument, text};
}

std::string in_quotes(const std::string& name) {
  return "'" + name + "'";
}

/// A declaration as part of the chain: its symbols are not those of other steps.
model_value declared_in(const chain_step& step, model_value declaration) {
  if (!declaration.shape) return declaration;
  for (auto& dimension : *declaration.shape) {
    if (!dimension.symbol.empty()) dimension.symbol = step.name + "." + dimension.symbol;
  }
  return declaration;
}

/// Why no tensor fits both declarations; empty if one may.
std::string conflict_of(const model_value& a, const model_value& b) {
  if (a.type && b.type && *a.type != *b.type) {
    return "the type is " + std::string(to_string(*a.type)) + ", but must be " +
           std::string(to_string(*b.type));
  }
  if (!a.shape || !b.shape) return {};
  const auto fits = [](const model_dimension& x, const model_dimension& y) {
    return !x.extent || !y.extent || *x.extent == *y.extent;
  };
  if (std::equal(a.shape->begin(), a.shape->end(), b.shape->begin(), b.shape->end(), fits)) {
    return {};
  }
  return "the shape is " + to_string(*a.shape) + ", but must be " + to_string(*b.shape);
}

/// Adds to a declaration what another one of the same value states.
void merge(model_value& declaration, const model_value& other) {
  if (!declaration.type) declaration.type = other.type;
  if (!declaration.shape) {
    declaration.shape = other.shape;
  } else if (other.shape) {
    for (std::size_t i = 0; i < declaration.shape->size(); ++i) {
      auto& dimension = (*declaration.shape)[i];
      if (!dimension.extent) dimension.extent = (*other.shape)[i].extent;
      if (dimension.symbol.empty()) dimension.symbol = (*other.shape)[i].symbol;
    }
  }
}

/// Finds out which step makes which value, and which read it.
class chain_builder {
 public:
  explicit chain_builder(const model_chain& description) : description_(description) {
    if (description.steps.empty()) throw chain_error("the chain has no steps");
    for (const auto& name : description.inputs) {
      if (name.empty()) throw chain_error("an input of the chain has no name");
      add_value(name, {}, "the chain has it as an input");
    }
    std::set<std::string> names;
    for (const auto& step : description.steps) {
      if (step.name.empty()) throw chain_error("a step has no name");
      if (!names.insert(step.name).second)
        throw chain_error("two steps have the name " + step.name);
      add_outputs(step);
    }
    for (std::size_t i = 0; i < description.steps.size(); ++i) add_inputs(i);
  }

  [[nodiscard]] chain_connections connect() && {
    chain_connections connections{.value_count = values_.size(), .steps = ordered_steps()};
    for (std::size_t i = 0; i < description_.inputs.size(); ++i) {
      if (!values_[i].is_read) {
        throw chain_error("no step reads the input " + in_quotes(values_[i].declaration.name));
      }
      connections.declared_inputs.push_back(values_[i].declaration);
    }
    std::set<std::string> names;
    for (const auto& name : description_.outputs) {
      if (!names.insert(name).second)
        throw chain_error("two outputs have the name " + in_quotes(name));
      const auto number = numbers_.find(name);
      if (number == numbers_.end() || number->second < description_.inputs.size()) {
        throw chain_error("no step makes the output " + in_quotes(name));
      }
      connections.outputs.push_back(number->second);
      connections.declared_outputs.push_back(values_[number->second].declaration);
    }
    if (connections.outputs.empty()) throw chain_error("the chain has no outputs");
    return connections;
  }

 private:
  struct chain_value {
    model_value declaration{};
    std::string producer{};
    bool is_read = false;
  };

  std::size_t add_value(const std::string& name, model_value declaration, std::string producer) {
    const auto [entry, is_new] = numbers_.emplace(name, values_.size());
    if (!is_new) {
      throw chain_error("the value " + in_quotes(name) + " has two producers: " + producer +
                        ", and " + values_[entry->second].producer);
    }
    declaration.name = name;
    values_.push_back({.declaration = std::move(declaration), .producer = std::move(producer)});
    return entry->second;
  }

  void add_outputs(const chain_step& step) {
    auto& connected = steps_.emplace_back();
    connected.step = steps_.size() - 1;
    auto remaining = step.outputs;
    for (const auto& output : step.what.outputs()) {
      const auto mapped = remaining.extract(output.name);
      connected.outputs.emplace_back();
      if (mapped.empty()) continue;
      if (mapped.mapped().empty()) {
        throw chain_error(label_of(step) + "the value for the output " + in_quotes(output.name) +
                          " has no name");
      }
      connected.outputs.back() = add_value(mapped.mapped(), declared_in(step, output),
                                           "step " + in_quotes(step.name) + " makes it");
    }
    if (!remaining.empty()) {
      throw chain_error(label_of(step) + "the model has no output " +
                        in_quotes(remaining.begin()->first));
    }
  }

  void add_inputs(std::size_t index) {
    const auto& step = description_.steps[index];
    auto remaining = step.inputs;
    for (const auto& input : step.what.inputs()) {
      const auto mapped = remaining.extract(input.name);
      if (mapped.empty()) {
        throw chain_error(label_of(step) + "the input " + in_quotes(input.name) + " gets no value");
      }
      const auto number = numbers_.find(mapped.mapped());
      if (number == numbers_.end()) {
        throw chain_error(label_of(step) + "nothing makes the value " + in_quotes(mapped.mapped()) +
                          " for the input " + in_quotes(input.name));
      }
      auto& value = values_[number->second];
      if (const auto conflict = conflict_of(value.declaration, input); !conflict.empty()) {
        throw chain_error(label_of(step) + "the value " + in_quotes(mapped.mapped()) +
                          " for the input " + in_quotes(input.name) + ": " + conflict);
      }
      if (number->second < description_.inputs.size()) {
        merge(value.declaration, declared_in(step, input));
      }
      value.is_read = true;
      steps_[index].inputs.push_back(number->second);
    }
    if (!remaining.empty()) {
      throw chain_error(label_of(step) + "the model has no input " +
                        in_quotes(remaining.begin()->first));
    }
  }

  /// Each step after those whose values it reads.
  [[nodiscard]] std::vector<connected_step> ordered_steps() const {
    std::vector<bool> is_known(values_.size());
    std::fill_n(is_known.begin(), description_.inputs.size(), true);
    std::vector<connected_step> ordered;
    auto remaining = steps_;
    while (!remaining.empty()) {
      const auto next = std::find_if(remaining.begin(), remaining.end(), [&](const auto& step) {
        return std::all_of(step.inputs.begin(), step.inputs.end(),
                           [&](std::size_t value) { return is_known[value]; });
      });
      if (next == remaining.end()) {
        throw chain_error(label_of(description_.steps[remaining.front().step]) +
                          "it depends on its own outputs, or on a step that does");
      }
      for (const auto& output : next->outputs) {
        if (output) is_known[*output] = true;
      }
      ordered.push_back(std::move(*next));
      remaining.erase(next);
    }
    return ordered;
  }

  const model_chain& description_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<chain_value> values_;
  std::vector<connected_step> steps_;
};

}  // namespace

chain_connections connect(const model_chain& description) {
  return chain_builder(description).connect();
}

std::string label_of(const chain_step& step) {
  return "step " + in_quotes(step.name) + ": ";
}

}  // namespace sluice::models
