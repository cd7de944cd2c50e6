// SPDX-License-Identifier: Apache-2.0
#include "models/export/implied_copies.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/tensor_layout.hpp>

namespace sluice::models {

using sluice::detail::program_view;
using value_kind = sluice::detail::program_graph::value_kind;

implied_copies::implied_copies(const program_graph& graph,
                               const std::vector<std::optional<tensor_spec>>& specs)
    : graph_(graph), specs_(specs), readers_(graph.values().size()) {
  for (std::uint32_t i = 0; i < graph.values().size(); ++i) {
    const auto& value = graph.values()[i];
    if (value.kind != value_kind::view) continue;
    ++readers_[value.source].count;
    readers_[value.source].view = i;
  }
  for (const auto& step : graph.steps()) {
    for (const auto operand : step.operands) {
      if (operand != program_graph::none) ++readers_[operand].count;
    }
  }
  for (const auto output : graph.outputs()) {
    ++readers_[output].count;
    ++readers_[output].outputs;
  }
}

bool implied_copies::is_copied_as_output(std::uint32_t value) const {
  if (graph_.values()[value].kind != value_kind::result) return true;
  return specs_[value] && !specs_[value]->is_contiguous();
}
bool implied_copies::is_copied_for(const program_view& view, std::uint32_t value) const {
  if (view.what != program_view::function::reshape || !specs_[value]) return false;
  const auto& spec = *specs_[value];
  try {
    (void)tensor_layout(spec.type, spec.shape, spec.strides).reshape(view.numbers);
  } catch (const error& e) {
    return e.code() == errc::unsupported;
  }
  return false;
}

bool implied_copies::is_implied(const program_graph::step& step, std::uint32_t result) const {
  const auto copied = step.operands.front();
  const bool is_copy =
      &step.operation->descriptor() == &descriptor_of(operation_type<strided_copy>()) &&
      copied != program_graph::none && step.operands.back() == program_graph::none;
  if (!is_copy) return false;
  const auto& reader = readers_[result];
  if (reader.count == 1 && reader.view != program_graph::none)
    return is_copied_for(graph_.view_of(reader.view), copied);
  // The import gives these copies this name.
  return step.name == "outputs" && reader.outputs != 0 && reader.outputs == reader.count &&
         is_copied_as_output(copied);
}

std::string implied_copies::step_of(std::uint32_t view) const {
  const auto source = graph_.values()[view].source;
  if (graph_.values()[source].kind != value_kind::result) return {};
  const auto& step = graph_.steps()[graph_.results()[graph_.values()[source].source].step];
  return is_implied(step, source) ? step.name : std::string();
}

}  // namespace sluice::models
