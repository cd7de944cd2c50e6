// SPDX-License-Identifier: Apache-2.0
#include "models/step_scope.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cstddef>

namespace sluice::models {

tensor_spec spec_of(const tensor_layout& layout) noexcept {
  auto alignment = tensor_spec::max_alignment;
  while (layout.offset() % alignment != 0) alignment /= 2;
  return {layout.type(), layout.shape(), layout.strides(), alignment};
}

value step_scope::input(const std::string& name, const tensor_spec& spec) {
  const tensor_layout layout(spec.type, spec.shape);
  value added(*this, builder_.input(name, spec.type, spec.shape), layout);
  record(added.in_program(), layout);
  if (separate_ != nullptr) separate_->add_input(number_of(added));
  return added;
}

program_value step_scope::constant(const host_tensor& elements, const std::string& name) {
  const auto number = "constant " + std::to_string(constants_++);
  const auto unnamed = name_.empty() ? number : name_ + " " + number;
  auto added = builder_.constant(name.empty() ? unnamed : name.substr(0, longest_name), elements);
  record(added, tensor_layout(elements.type(), elements.shape()));
  memory_.add_constant(elements);
  if (separate_ != nullptr) {
    separate_->add_constant(number_of(added), name.empty() ? unnamed : name, elements);
  }
  return added;
}

void step_scope::record(const program_value& added, const tensor_layout& layout) {
  budget_.take_values(1);
  specs_.insert_or_assign(number_of(added), spec_of(layout));
}

void step_scope::record_view(const program_value& added, const program_value& viewed,
                             const tensor_layout& layout, const view_function& apply) {
  record(added, layout);
  if (separate_ != nullptr) separate_->add_view(number_of(added), number_of(viewed), apply);
  memory_.add_view(number_of(added), number_of(viewed));
}

void step_scope::add_step_to_memory(std::span<const named_operand> operands) {
  std::vector<std::uint32_t> values;
  for (const auto& operand : operands) {
    if (*operand.value) values.push_back(number_of(*operand.value));
  }
  memory_.add_step(values);
}

void step_scope::add_cost(std::string_view operation, const launch_facts& facts,
                          const inference& inferred) {
  arithmetic_ += arithmetic_of(operation, facts, inferred.uses());
  work_ += facts.work;
  for (const auto& use : inferred.uses()) {
    if (!use.spec) continue;
    double elements = 1;  // a number that may overflow an integer
    for (const auto extent : use.spec->shape) elements *= static_cast<double>(extent);
    work_ += elements;
  }
}

std::vector<std::optional<tensor_spec>> step_scope::specs_of(
    std::span<const named_operand> operands) const {
  std::vector<std::optional<tensor_spec>> specs(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (*operands[i].value) specs[i] = specs_.at(number_of(*operands[i].value));
  }
  return specs;
}

step_scope::result_layout_list step_scope::result_layouts(const inference& inferred) {
  std::vector<std::optional<tensor_layout>> layouts;
  for (const auto& use : inferred.uses()) {
    if (use.operand.role != member_role::output) continue;
    auto& layout = layouts.emplace_back();
    if (use.spec) layout.emplace(use.spec->type, use.spec->shape, use.spec->strides);
  }
  return layouts;
}

results step_scope::record_results(const std::vector<program_value>& added,
                                   const result_layout_list& layouts) {
  results all;
  for (std::size_t i = 0; i < added.size(); ++i) {
    // An output that the operation leaves out has no layout, and nothing uses it.
    const auto layout = layouts[i].value_or(tensor_layout());
    all.emplace_back(*this, added[i], layout);
    record(added[i], layout);
    memory_.add_result(number_of(added[i]), layouts[i] ? layout.bytes() : 0);
    is_result_.insert_or_assign(number_of(added[i]), true);
  }
  return all;
}

value step_scope::as_output(const value& output) {
  const auto index = number_of(output);
  // An output is row-major for its reader.
  if (is_result_.contains(index) && output.layout().is_contiguous()) return output;
  return add(strided_copy{.x = output});
}

std::vector<std::uint32_t> step_scope::numbers_of(const std::vector<value>& values) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(values.size());
  for (const auto& value : values) numbers.push_back(number_of(value));
  return numbers;
}

model_cost step_scope::cost(const std::vector<value>& outputs) const {
  model_cost cost{.arithmetic = arithmetic_};
  memory_.count(numbers_of(outputs), cost);
  return cost;
}

model_steps step_scope::build_steps(std::vector<std::string> inputs,
                                    const std::vector<value>& outputs) && {
  return std::move(*separate_).finish(std::move(inputs), numbers_of(outputs));
}

program step_scope::build(const std::vector<value>& outputs) && {
  std::vector<program_value> values;
  values.reserve(outputs.size());
  for (const auto& output : outputs) values.push_back(output.in_program());
  return std::move(builder_).build(values);
}

}  // namespace sluice::models
