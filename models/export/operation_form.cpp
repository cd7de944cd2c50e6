// SPDX-License-Identifier: Apache-2.0
#include "models/export/operation_form.hpp"

#include <unordered_map>
#include <utility>

namespace sluice::models {

namespace {

using form_table = std::unordered_map<std::string_view, operation_form>;
using own_operator_table = std::unordered_map<std::string_view, operator_entry>;

form_table make_forms() {
  form_table table;
  for (const auto& family : {element_forms(), layer_forms(), movement_forms(), array_forms()}) {
    for (const auto& form : family) table.emplace(form.name, form);
  }
  return table;
}

const form_table& all_forms() {
  static const form_table table = make_forms();
  return table;
}

own_operator_table make_operators() {
  own_operator_table table;
  for (const auto& view : view_operators()) table.emplace(view.name, view);
  for (const auto& [name, form] : all_forms()) {
    table.emplace(name, operator_entry{name, form.import, 1, folding::never});
  }
  return table;
}

}  // namespace

const operation_form* find_form(std::string_view name) {
  const auto found = all_forms().find(name);
  return found != all_forms().end() ? &found->second : nullptr;
}

const operator_entry* find_own_operator(std::string_view name) {
  static const own_operator_table table = make_operators();
  const auto found = table.find(name);
  return found != table.end() ? &found->second : nullptr;
}

}  // namespace sluice::models
