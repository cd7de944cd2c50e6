// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/import_budget.hpp"
#include "models/step_graph.hpp"

#include <sluice/models/model_steps.hpp>
#include <sluice/operations/model_cost.hpp>
#include <sluice/operations/program.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace sluice::models {

/// Adds the values of a graph to a program when they are first read.
class value_placement {
 public:
  using root_function = std::function<program_value(step_graph::number)>;

  /// `missing` makes the value of a constant, an input or a result that has not been set.
  value_placement(const step_graph& graph, root_function missing)
      : graph_(graph), missing_(std::move(missing)) {}

  void set(step_graph::number value, const program_value& placed) {
    known_.insert_or_assign(value, placed);
  }
  [[nodiscard]] program_value place(step_graph::number value);
  /// How many views have been added.
  [[nodiscard]] std::size_t views() const noexcept { return views_; }

 private:
  const step_graph& graph_;
  root_function missing_;
  std::unordered_map<step_graph::number, program_value> known_;
  std::size_t views_ = 0;
};

/// The program of a graph.
struct graph_program {
  program what{};
  std::size_t value_count = 0;  ///< of the program
  model_cost cost{};
};
[[nodiscard]] graph_program program_of(const step_graph& graph,
                                       std::span<const step_graph::number> outputs);

/// The steps of a graph as programs of one step each. `inputs` are the names of its inputs.
/// @throws error `unsupported` if the views that steps repeat exceed the budget
[[nodiscard]] model_steps steps_of(const step_graph& graph,
                                   std::span<const step_graph::number> outputs,
                                   std::vector<std::string> inputs, import_budget& budget);

}  // namespace sluice::models
