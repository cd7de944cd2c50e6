// SPDX-License-Identifier: Apache-2.0
#include "models/step_scope.hpp"

#include "models/graph_program.hpp"

#include <sluice/operations/elementwise.hpp>

#include <cstddef>

namespace sluice::models {

tensor_spec spec_of(const tensor_layout& layout) noexcept {
  auto alignment = tensor_spec::max_alignment;
  while (layout.offset() % alignment != 0) alignment /= 2;
  return {layout.type(), layout.shape(), layout.strides(), alignment};
}

std::vector<step_graph::number> numbers_of(const std::vector<value>& values) {
  std::vector<step_graph::number> numbers;
  numbers.reserve(values.size());
  for (const auto& value : values) numbers.push_back(value.in_graph());
  return numbers;
}

std::string step_scope::start_of(const std::string& name) {
  constexpr std::size_t longest = 256;
  if (name.size() <= longest) return name;
  auto end = longest;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  return name.substr(0, end);
}

value step_scope::input(const std::string& name, const tensor_spec& spec) {
  const tensor_layout layout(spec.type, spec.shape);
  budget_.take_values(1);
  return {*this, graph_.add_input(name, spec_of(layout)), layout};
}

step_graph::number step_scope::constant(const host_tensor& elements, const std::string& name) {
  const auto number = "constant " + std::to_string(constants_++);
  const auto unnamed = name_.empty() ? number : name_ + " " + number;
  budget_.take_values(1);
  return graph_.add_constant(name.empty() ? unnamed : start_of(name), elements);
}

step_graph::number step_scope::add_view(step_graph::number viewed, const value_view& what,
                                        const tensor_layout& layout) {
  budget_.take_values(1);
  return graph_.add_view(viewed, what, spec_of(layout));
}

results step_scope::add_recorded(std::unique_ptr<recorded_operation> operation) {
  budget_.take_values(operation->operands().size());
  const auto facts = graph_.infer(*operation);
  budget_.take_values(facts.results.size());
  work_ += facts.work;
  auto number = graph_.add_step(name_, std::move(operation), facts);
  results all;
  for (const auto& result : facts.results) {
    // An output that the operation leaves out has no layout, and nothing uses it.
    const auto layout =
        result ? tensor_layout(result->type, result->shape, result->strides) : tensor_layout();
    all.emplace_back(*this, number++, layout);
  }
  return all;
}

value step_scope::as_output(const value& output) {
  // An output is row-major for its reader.
  const bool is_result = graph_.kind(output.in_graph()) == step_graph::value_kind::result;
  if (is_result && output.layout().is_contiguous()) return output;
  return add(strided_copy{.x = output});
}

program step_scope::build(const std::vector<value>& outputs) const {
  return program_of(graph_, numbers_of(outputs)).what;
}

}  // namespace sluice::models
