// SPDX-License-Identifier: Apache-2.0
#include "models/graph_program.hpp"

#include "models/value_memory.hpp"

#include <utility>

namespace sluice::models {

using value_kind = step_graph::value_kind;

program_value value_placement::place(step_graph::number value) {
  value = graph_.resolve(value);
  // The views from the value to one that has been placed.
  std::vector<step_graph::number> views;
  auto known = known_.find(value);
  while (known == known_.end() && graph_.kind(value) == value_kind::view) {
    views.push_back(value);
    value = graph_.resolve(graph_.view_of(value).viewed);
    known = known_.find(value);
  }
  if (known == known_.end()) known = known_.emplace(value, missing_(value)).first;
  auto placed = known->second;
  for (auto next = views.rbegin(); next != views.rend(); ++next) {
    placed = graph_.view_of(*next).what.apply(placed);
    known_.emplace(*next, placed);
  }
  views_ += views.size();
  return placed;
}

namespace {

/// Adds a step, and states what it costs.
std::vector<program_value> add_step(const step_graph& graph, const step_graph::step& s,
                                    program_builder& builder, value_placement& values,
                                    value_memory& memory) {
  auto added = s.operation->add_to(builder, s.name,
                                   [&](step_graph::number value) { return values.place(value); });
  std::vector<std::uint32_t> roots;
  for (const auto operand : s.operation->operands()) roots.push_back(graph.root(operand));
  memory.add_step(roots);
  for (std::size_t i = 0; i < added.size(); ++i) {
    const auto number = s.first_result + static_cast<step_graph::number>(i);
    values.set(number, added[i]);
    memory.add_result(number, s.is_made[i] ? graph.spec(number).bytes() : 0);
  }
  return added;
}

}  // namespace

graph_program program_of(const step_graph& graph, std::span<const step_graph::number> outputs) {
  program_builder builder;
  value_memory memory;
  graph_program made;
  std::vector<program_value> inputs;
  value_placement values(graph, [&](step_graph::number value) {
    ++made.value_count;
    if (graph.kind(value) == value_kind::input) return inputs[graph.input_of(value)];
    const auto& [name, elements] = graph.constant_of(value);
    memory.add_constant(elements);
    return builder.constant(name, elements);
  });
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const auto& spec = graph.spec(graph.input_value(i));
    inputs.push_back(builder.input(graph.inputs()[i], spec.type, spec.shape));
  }
  for (const auto& s : graph.steps()) {
    if (!s.operation) continue;
    made.value_count += add_step(graph, s, builder, values, memory).size();
    made.cost.arithmetic += s.arithmetic;
  }
  std::vector<program_value> results;
  std::vector<std::uint32_t> roots;
  for (const auto output : outputs) {
    results.push_back(values.place(output));
    roots.push_back(graph.root(output));
  }
  memory.count(roots, made.cost);
  made.value_count += values.views();
  made.what = std::move(builder).build(results);
  return made;
}

}  // namespace sluice::models
