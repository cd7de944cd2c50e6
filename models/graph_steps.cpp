// SPDX-License-Identifier: Apache-2.0
#include "models/graph_program.hpp"

#include <utility>

namespace sluice::models {
namespace {

using value_kind = step_graph::value_kind;

/// The numbers of values in `model_steps`, which each gets when it is first seen.
class value_numbers {
 public:
  std::size_t operator()(step_graph::number value) {
    return numbers_.try_emplace(value, numbers_.size()).first->second;
  }

 private:
  std::unordered_map<step_graph::number, std::size_t> numbers_;
};

model_step step_program(const step_graph& graph, const step_graph::step& s, value_numbers& numbers,
                        import_budget& budget) {
  model_step step{.name = s.name, .operation = std::string(s.operation->name())};
  program_builder builder;
  value_placement values(graph, [&](step_graph::number value) {
    if (graph.kind(value) == value_kind::constant) {
      const auto& [name, elements] = graph.constant_of(value);
      return builder.constant(name, elements);
    }
    step.inputs.push_back(numbers(value));
    return builder.input("value " + std::to_string(step.inputs.back()));
  });
  const auto added = s.operation->add_to(builder, s.name, [&](step_graph::number value) {
    const auto views = values.views();
    auto placed = values.place(value);
    budget.take_values(values.views() - views + 1);  // each step repeats its views
    return placed;
  });
  std::vector<program_value> outputs;
  for (std::size_t i = 0; i < added.size(); ++i) {
    if (!s.is_made[i]) continue;
    outputs.push_back(added[i]);
    step.outputs.push_back(numbers(s.first_result + static_cast<step_graph::number>(i)));
  }
  step.what = std::move(builder).build(outputs, {.capture = capture_policy::never, .fuse = false});
  return step;
}

}  // namespace

model_steps steps_of(const step_graph& graph, std::span<const step_graph::number> outputs,
                     std::vector<std::string> inputs, import_budget& budget) {
  value_numbers numbers;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) (void)numbers(graph.input_value(i));
  model_steps all{.inputs = std::move(inputs)};
  for (const auto& s : graph.steps()) {
    if (s.operation) all.steps.push_back(step_program(graph, s, numbers, budget));
  }
  for (const auto output : outputs) all.outputs.push_back(numbers(graph.resolve(output)));
  return all;
}

}  // namespace sluice::models
