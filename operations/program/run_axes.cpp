// SPDX-License-Identifier: Apache-2.0
#include "operations/program/run_axes.hpp"

#include "operations/program/batch_rules.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/stacked_view.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <string>

namespace sluice::operations {
namespace {

using detail::program_graph;
using value_kind = program_graph::value_kind;

/// Whether a result may have its runs along `result_axis` if an operand has them along `axis`.
bool allows(batch_rule rule, std::size_t axis, std::size_t rank, std::size_t result_axis,
            std::size_t result_rank) noexcept {
  switch (rule) {
    case batch_rule::aligned:
      return rank - axis == result_rank - result_axis;
    case batch_rule::same_place:
      return axis == result_axis;
    case batch_rule::moves:
      return true;
    case batch_rule::mixes:
      return false;
  }
  return false;
}

/// Finds where the runs lie in the values of a program.
class run_search {
 public:
  run_search(const program_graph& graph, const program_inference& alone,
             std::span<const stacked_inference> several,
             std::span<const std::optional<std::size_t>> inputs, rule_policy policy)
      : graph_(graph), alone_(alone), several_(several), inputs_(inputs), policy_(policy) {}

  [[nodiscard]] std::vector<run_axis> axes() && {
    for (std::uint32_t i = 0; i < graph_.values().size(); ++i) {
      const auto& value = graph_.values()[i];
      switch (value.kind) {
        case value_kind::input:
          states_.push_back({inputs_[value.source].has_value(), inputs_[value.source].value_or(0)});
          break;
        case value_kind::constant:
          states_.push_back({});
          break;
        case value_kind::view:
          states_.push_back(axis_of_view(i, value));
          break;
        case value_kind::result:
          states_.push_back(axis_of_result(i, value.source));
          break;
      }
    }
    return std::move(states_);
  }

 private:
  [[nodiscard]] std::optional<std::size_t> axis_of(std::uint32_t value) const {
    const auto one = alone_.values[value].layout.shape();
    std::optional<std::size_t> axis;
    for (const auto& [count, runs] : several_) {
      const auto found = proportional_axis(one, runs->values[value].layout.shape(), count);
      if (!found || (axis && *axis != *found)) return std::nullopt;
      axis = found;
    }
    return axis;
  }
  /// Whether a value of several runs has other extents than that of one.
  [[nodiscard]] bool has_other_extents(std::uint32_t value) const {
    const auto one = alone_.values[value].layout.shape();
    return std::any_of(several_.begin(), several_.end(), [&](const auto& several) {
      return several.runs->values[value].layout.shape() != one;
    });
  }
  /// Whether the step of a value makes it, with elements.
  [[nodiscard]] static bool has_elements(const program_inference& runs, std::uint32_t value) {
    return runs.values[value].root != program_inference::located::nowhere &&
           !runs.values[value].layout.empty();
  }
  /// Likewise for any number of runs, or for all of them.
  ///@{
  [[nodiscard]] bool exists(std::uint32_t value) const {
    return has_elements(alone_, value) ||
           std::any_of(several_.begin(), several_.end(),
                       [&](const auto& several) { return has_elements(*several.runs, value); });
  }
  [[nodiscard]] bool is_full(std::uint32_t value) const {
    return has_elements(alone_, value) &&
           std::all_of(several_.begin(), several_.end(),
                       [&](const auto& several) { return has_elements(*several.runs, value); });
  }
  ///@}

  [[nodiscard]] run_axis axis_of_view(std::uint32_t number,
                                      const program_graph::value& value) const {
    const auto& viewed = states_[value.source];
    if (!viewed.varies) return {};
    // A view without a text checks the shape of one run.
    if (value.text.empty()) return viewed;
    if (!exists(number) && policy_ == rule_policy::of_sluice) return {};
    const auto axis = axis_of(number);
    const auto has_runs = [&](const stacked_inference& several) {
      const auto& values = several.runs->values;
      return axis_of_views(value.view, values[value.source].layout, viewed.axis, several.count,
                           values[number].layout) == axis;
    };
    if (axis && std::all_of(several_.begin(), several_.end(), has_runs)) return {true, *axis};
    throw invalid_argument("view '" + graph_.name_of(number) + "'",
                           "mixes the runs that are launched together: they lie along axis " +
                               std::to_string(viewed.axis) + " of " + graph_.name_of(value.source) +
                               ", and along no axis of the view");
  }

  [[nodiscard]] run_axis axis_of_result(std::uint32_t number, std::uint32_t result) const {
    const auto step_number = graph_.results()[result].step;
    const auto& step = graph_.steps()[step_number];
    const auto is_read = [&](std::size_t i) {
      return std::any_of(several_.begin(), several_.end(), [&](const auto& several) {
        return !several.runs->steps[step_number].uses[i].ignored;
      });
    };
    std::vector<std::uint32_t> operands;  // those that vary
    const auto find_operands = [&](const auto& counts) {
      for (std::size_t i = 0; i < step.operands.size(); ++i) {
        const auto operand = step.operands[i];
        if (operand == program_graph::none || !states_[operand].varies || !counts(i)) continue;
        operands.push_back(operand);
        for (const auto& several : several_) {
          const auto coupled = several.runs->steps[step_number].uses[i].coupled;
          if (((coupled >> states_[operand].axis) & 1U) != 0) refuse(step, operand);
        }
      }
    };
    find_operands(is_read);
    // A result may have the extents of an operand that is not read, as that of `gemm` without
    // alpha.
    if (operands.empty() && exists(number) && has_other_extents(number)) {
      find_operands([](std::size_t) { return true; });
    }
    if (operands.empty()) return {};
    const bool needs_rule = policy_ == rule_policy::of_all;
    if (!exists(number) && !needs_rule) return {};
    // An output that the step leaves out has no runs.
    if (alone_.values[number].root == program_inference::located::nowhere && !exists(number)) {
      return {};
    }
    const auto axis = axis_of(number);
    const auto rule = rule_of(step.operation->descriptor());
    const auto rank = alone_.values[number].layout.rank();
    for (const auto operand : operands) {
      const bool is_known = rule || !needs_rule;
      if (!axis || !is_known || (needs_rule && !is_full(number))) refuse(step, operand);
      if (rule && !allows(*rule, states_[operand].axis, alone_.values[operand].layout.rank(), *axis,
                          rank)) {
        refuse(step, operand);
      }
    }
    return {true, *axis};
  }
  [[noreturn]] void refuse(const program_graph::step& step, std::uint32_t operand) const {
    throw invalid_argument("step '" + step.name + "'",
                           std::string(step.operation->descriptor().name()) + " mixes axis " +
                               std::to_string(states_[operand].axis) + " of " +
                               graph_.name_of(operand) +
                               ", along which runs that are launched together lie; the step is " +
                               graph_.text_of(step));
  }

  const program_graph& graph_;
  const program_inference& alone_;
  std::span<const stacked_inference> several_;
  std::span<const std::optional<std::size_t>> inputs_;
  rule_policy policy_;
  std::vector<run_axis> states_;
};

}  // namespace

std::optional<std::size_t> proportional_axis(const extents& one, const extents& several,
                                             std::int64_t count) noexcept {
  if (one.size() != several.size()) return std::nullopt;
  std::optional<std::size_t> axis;
  for (std::size_t d = 0; d < one.size(); ++d) {
    if (several[d] == one[d]) continue;
    if (axis || several[d] != count * one[d]) return std::nullopt;
    axis = d;
  }
  return axis;
}

std::vector<run_axis> axes_of_runs(const program_graph& graph, const program_inference& alone,
                                   std::span<const stacked_inference> several,
                                   std::span<const std::optional<std::size_t>> inputs,
                                   rule_policy policy) {
  return run_search(graph, alone, several, inputs, policy).axes();
}

}  // namespace sluice::operations
