// SPDX-License-Identifier: Apache-2.0
#include "operations/program/run_axes.hpp"

#include "operations/program/program_graph.hpp"

#include <sluice/runtime/error.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::operations {
namespace {

using detail::program_graph;
using value_kind = program_graph::value_kind;

/// The axis whose extent is proportional to the number of runs; nothing if there is none, or if
/// other extents change, too.
std::optional<std::size_t> proportional_axis(const extents& one, const extents& two,
                                             const extents& three) {
  if (one.size() != two.size() || one.size() != three.size()) return std::nullopt;
  std::optional<std::size_t> axis;
  for (std::size_t d = 0; d < one.size(); ++d) {
    if (two[d] == one[d] && three[d] == one[d]) continue;
    if (axis || two[d] != 2 * one[d] || three[d] != 3 * one[d]) return std::nullopt;
    axis = d;
  }
  return axis;
}

/// Where the runs lie in the values of a program.
class run_axes {
 public:
  run_axes(const program_graph& graph, const program_inference& alone, const program_inference& two,
           const program_inference& three)
      : graph_(graph), alone_(alone), two_(two), three_(three) {}

  void check() {
    for (std::uint32_t i = 0; i < graph_.values().size(); ++i) {
      const auto& value = graph_.values()[i];
      switch (value.kind) {
        case value_kind::input:
          states_.push_back({graph_.is_per_request(value.source), 0});
          break;
        case value_kind::constant:
          states_.push_back({});
          break;
        case value_kind::view:
          states_.push_back(state_of_view(i, value.source));
          break;
        case value_kind::result:
          states_.push_back(state_of_result(i, value.source));
          break;
      }
    }
  }

 private:
  struct state {
    bool varies = false;   ///< whether it depends on the run
    std::size_t axis = 0;  ///< along which the runs lie, if it does
  };

  [[nodiscard]] std::optional<std::size_t> axis_of(std::uint32_t value) const {
    return proportional_axis(alone_.values[value].layout.shape(), two_.values[value].layout.shape(),
                             three_.values[value].layout.shape());
  }
  /// Whether the step of a value makes it, with elements, for any number of runs.
  [[nodiscard]] bool exists(std::uint32_t value) const {
    const auto has_elements = [&](const program_inference& runs) {
      return runs.values[value].root != program_inference::located::nowhere &&
             !runs.values[value].layout.empty();
    };
    return has_elements(alone_) || has_elements(two_) || has_elements(three_);
  }

  [[nodiscard]] state state_of_view(std::uint32_t number, std::uint32_t source) const {
    const auto& viewed = states_[source];
    if (!viewed.varies || !exists(number)) return {};
    const auto axis = axis_of(number);
    if (axis && begins_at_runs(number, *axis, source, viewed.axis)) return {true, *axis};
    throw invalid_argument("view '" + graph_.name_of(number) + "'",
                           "mixes the runs that are launched together: they lie along axis " +
                               std::to_string(viewed.axis) + " of " + graph_.name_of(source) +
                               ", and along no axis of the view");
  }
  /// Whether the part of the second run begins at the same element in a view and in its source.
  [[nodiscard]] bool begins_at_runs(std::uint32_t view, std::size_t axis, std::uint32_t source,
                                    std::size_t source_axis) const {
    const auto distance = [&](std::uint32_t value, std::size_t d) {
      const auto& layout = two_.values[value].layout;
      return alone_.values[value].layout.shape()[d] * layout.strides()[d] *
             static_cast<std::int64_t>(size_of(layout.type()));
    };
    return distance(view, axis) == distance(source, source_axis);
  }

  [[nodiscard]] state state_of_result(std::uint32_t number, std::uint32_t result) const {
    const auto step_number = graph_.results()[result].step;
    const auto& step = graph_.steps()[step_number];
    const auto& uses = two_.steps[step_number].uses;
    bool varies = false;
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const auto operand = step.operands[i];
      if (operand == program_graph::none || uses[i].ignored || !states_[operand].varies) continue;
      varies = true;
      const auto axis = states_[operand].axis;
      if (((uses[i].coupled >> axis) & 1U) != 0) refuse(step, operand, axis);
    }
    if (!varies || !exists(number)) return {};
    if (const auto axis = axis_of(number)) return {true, *axis};
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const auto operand = step.operands[i];
      if (operand == program_graph::none || uses[i].ignored || !states_[operand].varies) continue;
      refuse(step, operand, states_[operand].axis);
    }
    return {};
  }
  [[noreturn]] void refuse(const program_graph::step& step, std::uint32_t operand,
                           std::size_t axis) const {
    throw invalid_argument("step '" + step.name + "'",
                           std::string(step.operation->descriptor().name()) + " mixes axis " +
                               std::to_string(axis) + " of " + graph_.name_of(operand) +
                               ", along which runs that are launched together lie; the step is " +
                               graph_.text_of(step));
  }

  const program_graph& graph_;
  const program_inference& alone_;
  const program_inference& two_;
  const program_inference& three_;
  std::vector<state> states_;
};

}  // namespace

void require_independent_runs(const program_graph& graph, const program_inference& alone,
                              const program_inference& two, const program_inference& three) {
  run_axes(graph, alone, two, three).check();
}

}  // namespace sluice::operations
