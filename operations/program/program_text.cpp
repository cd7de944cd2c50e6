// SPDX-License-Identifier: Apache-2.0
// The names of the values of a program, and a program in words.
#include "operations/program/program_graph.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::detail {

std::string program_graph::name_of(std::uint32_t number) const {
  std::vector<const std::string*> views;  // the last one first
  for (; values_[number].kind == value_kind::view; number = values_[number].source) {
    if (!values_[number].text.empty()) views.push_back(&values_[number].text);
  }
  const auto& v = values_[number];
  std::string name = v.kind == value_kind::input      ? inputs_[v.source]
                     : v.kind == value_kind::constant ? constants_[v.source].name
                                                      : name_of_result(v.source);
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    name += '.';
    name += **view;
  }
  return name;
}

std::string program_graph::name_of_result(std::size_t number) const {
  const auto& r = results_[number];
  const auto& s = steps_[r.step];
  if (s.outputs.size() == 1) return s.name;
  return s.name + '.' + std::string(s.operation->operands()[r.operand].name);
}

std::string program_graph::text_of(const step& s) const {
  std::string text(s.operation->descriptor().name());
  text += '(';
  const char* separator = "";
  const auto add = [&](std::string_view name, const std::string& content) {
    text += separator;
    text += name;
    text += " = ";
    text += content;
    separator = ", ";
  };
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    const auto content = s.operands[i] != none ? name_of(s.operands[i]) : s.operation->number_of(i);
    if (!content.empty()) add(s.operation->operands()[i].name, content);
  }
  const auto bound = s.operation->scalars();
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const auto& number = s.scalars[i];
    add(bound[i].name, number.is_of_program() ? scalars_[number.number()] : number.text());
  }
  return text + ')';
}

std::string program_graph::text() const {
  std::string text;
  for (const auto& name : scalars_) text += name + " = scalar\n";
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    const auto& v = values_[i];
    if (v.kind == value_kind::input) {
      text += name_of(i) + (is_per_request(v.source) ? " = input per request" : " = input");
      if (const auto along = run_axis(v.source).value_or(0); along != 0) {
        text += " along " + std::to_string(along);
      }
      const auto axis = padded_axes_[v.source];
      text += axis != 0 ? ", padded along " + std::to_string(axis) + "\n" : "\n";
    } else if (v.kind == value_kind::constant) {
      const auto spec = constants_[v.source].spec();
      text += name_of(i) + " = constant " + std::string(to_string(spec.type)) +
              to_string(spec.shape) + "\n";
    } else if (v.kind == value_kind::result) {
      const auto& s = steps_[results_[v.source].step];
      text += name_of(i);
      text += v.source + 1 == s.first_result + s.outputs.size() ? " = " + text_of(s) + "\n" : ", ";
    }
  }
  text += "outputs:";
  for (const auto output : outputs_) {
    text += (text.back() == ':' ? " " : ", ") + name_of(output);
  }
  return text + "\n";
}

}  // namespace sluice::detail
