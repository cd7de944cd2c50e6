// SPDX-License-Identifier: Apache-2.0
#include "models/export/standard_form.hpp"

#include "models/export/standard_node.hpp"

#include <cmath>
#include <limits>
#include <unordered_map>

namespace sluice::models {

namespace {

using standard_form_table = std::unordered_map<std::string_view, bool (*)(standard_node&)>;

standard_form_table make_standard_forms() {
  standard_form_table table;
  for (const auto family :
       {standard_layer_forms(), standard_movement_forms(), standard_reduction_forms()}) {
    for (const auto& form : family) table.emplace(form.operation, form.write);
  }
  return table;
}

/// Whether operators of ONNX compute with a type. They convert numbers of 8 bits.
bool is_computed(element_type type, bool is_conversion) {
  if (type == element_type::c64 || type == element_type::c128) return false;
  return is_conversion || (type != element_type::e4m3 && type != element_type::e5m2);
}

}  // namespace

bool standard_node::is_in_range_of_float(double number) {
  return std::abs(number) <= std::numeric_limits<float>::max();
}

bool write_standard_step(const step_description& step, onnx::NodeProto& message) {
  // No operator of ONNX updates a tensor.
  for (const auto& operand : step.operation.operands()) {
    if (operand.role == member_role::output && *operand.value) return false;
  }
  const auto name = step.operation.descriptor().name();
  for (const auto& spec : step.specs) {
    if (spec && !is_computed(spec->type, name == "cast")) return false;
  }
  static const standard_form_table table = make_standard_forms();
  standard_node node(step, message);
  const auto found = table.find(name);
  return found != table.end() ? found->second(node) : write_standard_function(node);
}

}  // namespace sluice::models
