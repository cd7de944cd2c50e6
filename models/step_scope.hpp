// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/import_budget.hpp"
#include "models/recorded_operation.hpp"
#include "models/source_sets.hpp"
#include "models/step_graph.hpp"
#include "models/value.hpp"
#include "models/value_view.hpp"

#include <sluice/operations/model_source.hpp>
#include <sluice/operations/operation_result.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::models {

/// Adds steps to a graph. Each step is inferred when it is added, so a node is refused where it
/// stands.
class step_scope {
 public:
  /// With `optimizes`, the import itself may choose how values lie in memory.
  explicit step_scope(import_budget& budget, bool optimizes = false) noexcept
      : budget_(budget), optimizes_(optimizes) {}
  step_scope(const step_scope&) = delete;
  step_scope& operator=(const step_scope&) = delete;
  ~step_scope() = default;

  [[nodiscard]] import_budget& budget() const noexcept { return budget_; }
  [[nodiscard]] source_sets& sources() noexcept { return sources_; }
  [[nodiscard]] bool optimizes() const noexcept { return optimizes_; }
  /// Notes that a rule has been applied to the node whose steps are added.
  void note_optimization(std::string_view rule) { done_.push_back({std::string(rule), name_}); }
  [[nodiscard]] const std::vector<model_optimization>& optimizations() const noexcept {
    return done_;
  }
  /// The work of all steps, in the units of `request_limits`.
  [[nodiscard]] double work() const noexcept { return work_; }
  /// What has been added.
  [[nodiscard]] step_graph& graph() noexcept { return graph_; }

  /// The name of the steps that are added next. A long one is cut.
  void name_steps(const std::string& name) { name_ = start_of(name); }

  /// An input of the program.
  [[nodiscard]] value input(const std::string& name, const tensor_spec& spec);
  /// A constant of the program. Without a name, it has that of the steps and a number.
  [[nodiscard]] step_graph::number constant(const host_tensor& elements, const std::string& name);
  /// A view of a value of the graph, with its layout.
  [[nodiscard]] step_graph::number add_view(step_graph::number viewed, const value_view& what,
                                            const tensor_layout& layout);

  /// Adds a step with one result.
  template <class Operation>
  [[nodiscard]] value add(Operation operation) {
    static_assert(!sluice::detail::has_several_results<Operation>());
    return add_all(std::move(operation)).front();
  }
  /// Adds a step, and returns all of its results, in order.
  template <class Operation>
  [[nodiscard]] results add_all(Operation operation) {
    return add_recorded(
        std::make_unique<typed_recorded_operation<Operation>>(std::move(operation)));
  }
  /// The value, or a copy of it if it is no result of a step and so can be no output.
  [[nodiscard]] value as_output(const value& output);
  /// The program of all steps, as they are.
  [[nodiscard]] program build(const std::vector<value>& outputs) const;

 private:
  /// The first bytes of a name, without a part of a character of UTF-8: each step and constant has
  /// a copy of it.
  [[nodiscard]] static std::string start_of(const std::string& name);

  [[nodiscard]] results add_recorded(std::unique_ptr<recorded_operation> operation);

  import_budget& budget_;
  bool optimizes_;
  std::vector<model_optimization> done_;
  source_sets sources_;
  double work_ = 0;
  step_graph graph_;
  std::string name_;
  std::uint32_t constants_ = 0;
};

/// The numbers of values in their graph.
[[nodiscard]] std::vector<step_graph::number> numbers_of(const std::vector<value>& values);
/// The properties of a value with this layout, in memory as it is allocated.
[[nodiscard]] tensor_spec spec_of(const tensor_layout& layout) noexcept;

}  // namespace sluice::models
