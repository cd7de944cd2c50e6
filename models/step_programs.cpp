// SPDX-License-Identifier: Apache-2.0
#include "models/step_programs.hpp"

namespace sluice::models {

program_value step_programs::place(open_step& step, std::uint32_t value, import_budget& budget) {
  if (const auto known = step.known.find(value); known != step.known.end()) return known->second;
  // The views from the value to what they are views of.
  std::vector<const view*> views;
  auto root = value;
  for (auto found = views_.find(root); found != views_.end(); found = views_.find(root)) {
    views.push_back(&found->second);
    root = found->second.viewed;
  }
  budget.take_values(views.size() + 1);  // each step repeats its views
  auto known = step.known.find(root);
  if (known == step.known.end()) {
    const auto fixed = constants_.find(root);
    if (fixed != constants_.end()) {
      const auto& [name, elements] = fixed->second;
      known = step.known.emplace(root, step.builder.constant(name, elements)).first;
    } else {
      step.what.inputs.push_back(number(root));
      const auto name = "value " + std::to_string(step.what.inputs.back());
      known = step.known.emplace(root, step.builder.input(name)).first;
    }
  }
  auto result = known->second;
  for (auto next = views.rbegin(); next != views.rend(); ++next) result = (*next)->apply(result);
  step.known.insert_or_assign(value, result);
  return result;
}

void step_programs::close(open_step step, const std::vector<program_value>& values,
                          std::span<const std::uint32_t> results,
                          const std::vector<bool>& is_made) {
  std::vector<program_value> outputs;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!is_made[i]) continue;
    outputs.push_back(values[i]);
    step.what.outputs.push_back(number(results[i]));
  }
  step.what.what =
      std::move(step.builder).build(outputs, {.capture = capture_policy::never, .fuse = false});
  steps_.push_back(std::move(step.what));
}

model_steps step_programs::finish(std::vector<std::string> inputs,
                                  std::span<const std::uint32_t> outputs) && {
  model_steps all{.inputs = std::move(inputs), .steps = std::move(steps_)};
  for (const auto output : outputs) all.outputs.push_back(number(output));
  return all;
}

}  // namespace sluice::models
