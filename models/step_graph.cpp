// SPDX-License-Identifier: Apache-2.0
#include "models/step_graph.hpp"

#include <algorithm>

namespace sluice::models {

step_graph::number step_graph::add(const tensor_spec& spec, value_kind kind, std::size_t source) {
  const auto added = static_cast<number>(values_.size());
  values_.push_back(
      {.spec = spec, .kind = kind, .source = static_cast<number>(source), .root = added});
  return added;
}

step_graph::number step_graph::add_input(std::string name, const tensor_spec& spec) {
  inputs_.push_back(std::move(name));
  input_values_.push_back(add(spec, value_kind::input, inputs_.size() - 1));
  return input_values_.back();
}
step_graph::number step_graph::add_constant(std::string name, host_tensor elements) {
  const auto spec = tensor_spec::row_major(elements.type(), elements.shape());
  constants_.push_back({std::move(name), std::move(elements)});
  return add(spec, value_kind::constant, constants_.size() - 1);
}
step_graph::number step_graph::add_view(number viewed, const value_view& what,
                                        const tensor_spec& spec) {
  viewed = resolve(viewed);
  views_.push_back({viewed, what});
  const auto added = add(spec, value_kind::view, views_.size() - 1);
  values_[added].root = root(viewed);
  return added;
}
step_graph::number step_graph::add_step(std::string name,
                                        std::unique_ptr<recorded_operation> operation,
                                        const step_facts& facts) {
  const auto first = static_cast<number>(values_.size());
  step added{.name = std::move(name),
             .operation = std::move(operation),
             .first_result = first,
             .arithmetic = facts.arithmetic};
  for (const auto& result : facts.results) {
    added.is_made.push_back(result.has_value());
    add(result.value_or(tensor_spec()), value_kind::result, steps_.size());
  }
  steps_.push_back(std::move(added));
  return first;
}

step_graph::number step_graph::resolve(number value) const noexcept {
  while (values_[value].same_as != none) value = values_[value].same_as;
  return value;
}

step_graph::number step_graph::root(number value) const noexcept {
  for (;;) {
    const auto next = values_[resolve(value)].root;
    if (next == value) return value;
    value = next;
  }
}

void step_graph::add_use(number value) {
  for (;;) {
    auto& used = values_[resolve(value)];
    if (used.uses++ != 0 || used.kind != value_kind::view) return;
    value = views_[used.source].viewed;
  }
}

void step_graph::remove_uses(std::vector<number> values) {
  while (!values.empty()) {
    auto& used = values_[resolve(values.back())];
    values.pop_back();
    if (--used.uses != 0) continue;
    switch (used.kind) {
      case value_kind::view:
        values.push_back(views_[used.source].viewed);
        break;
      case value_kind::constant:
        constants_[used.source].elements = {};
        break;
      case value_kind::result: {
        auto& maker = steps_[used.source];
        bool is_used = false;
        for (std::size_t i = 0; i < maker.is_made.size(); ++i) {
          is_used = is_used || values_[maker.first_result + i].uses != 0;
        }
        if (is_used || !maker.operation) break;
        const auto operands = maker.operation->operands();
        maker.operation.reset();
        values.insert(values.end(), operands.begin(), operands.end());
        break;
      }
      case value_kind::input:
        break;
    }
  }
}

std::vector<std::size_t> step_graph::count_uses(std::span<const number> outputs) {
  for (const auto output : outputs) {
    add_use(output);
    values_[resolve(output)].is_output = true;
  }
  std::vector<std::size_t> unused;
  for (auto i = steps_.size(); i-- > 0;) {
    auto& s = steps_[i];
    bool is_used = false;
    for (std::size_t k = 0; k < s.is_made.size(); ++k) {
      is_used = is_used || values_[s.first_result + k].uses != 0;
    }
    if (is_used) {
      for (const auto operand : s.operation->operands()) add_use(operand);
    } else {
      s.operation.reset();
      unused.push_back(i);
    }
  }
  std::reverse(unused.begin(), unused.end());
  return unused;
}

step_facts step_graph::infer(const recorded_operation& operation) const {
  return operation.infer(
      [this](number value) -> const tensor_spec& { return values_[resolve(value)].spec; });
}

void step_graph::replace(std::size_t step_number, std::unique_ptr<recorded_operation> operation,
                         const step_facts& facts) {
  auto& s = steps_[step_number];
  const auto before = s.operation->operands();
  s.operation = std::move(operation);
  s.arithmetic = facts.arithmetic;
  for (const auto operand : s.operation->operands()) add_use(operand);
  remove_uses(before);
}

void step_graph::replace(std::size_t step_number, std::unique_ptr<recorded_operation> operation,
                         const step_facts& facts, const value_view& what) {
  const auto viewed = add(facts.results.front().value(), value_kind::result, step_number);
  auto& s = steps_[step_number];
  auto& old = values_[s.first_result];
  views_.push_back({viewed, what});
  old.kind = value_kind::view;
  old.source = static_cast<number>(views_.size() - 1);
  old.root = viewed;
  s.first_result = viewed;
  values_[viewed].uses = 1;
  replace(step_number, std::move(operation), facts);
}

void step_graph::forward(number value, number other) {
  value = resolve(value);
  other = resolve(other);
  if (const auto uses = values_[value].uses; uses != 0) {
    add_use(other);
    values_[other].uses += uses - 1;
    values_[other].is_output = values_[other].is_output || values_[value].is_output;
    values_[value].uses = 1;
    remove_uses({value});
  }
  values_[value].same_as = other;
}

}  // namespace sluice::models
