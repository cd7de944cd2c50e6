// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/arithmetic.hpp"
#include "models/import_budget.hpp"
#include "models/source_sets.hpp"
#include "models/step_programs.hpp"
#include "models/value.hpp"
#include "models/value_memory.hpp"

#include <sluice/operations/inference.hpp>
#include <sluice/operations/launch_descriptor.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/model_cost.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/operation_result.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice::models {

/// A program that is being made, with the layouts of its values. A `program_builder` alone knows no
/// shapes; here each step is inferred when it is added, so a node is refused where it stands.
class step_scope {
 public:
  /// With `separate`, each step becomes a program of its own, too.
  explicit step_scope(import_budget& budget, step_programs* separate = nullptr) noexcept
      : budget_(budget), separate_(separate) {}
  step_scope(const step_scope&) = delete;
  step_scope& operator=(const step_scope&) = delete;
  ~step_scope() = default;

  [[nodiscard]] import_budget& budget() const noexcept { return budget_; }
  [[nodiscard]] source_sets& sources() noexcept { return sources_; }
  /// The work of all steps, in the units of `request_limits`.
  [[nodiscard]] double work() const noexcept { return work_; }

  /// The number of values of the program.
  [[nodiscard]] std::size_t value_count() const noexcept { return specs_.size(); }

  /// The name of the steps that are added next. A long one is cut.
  void name_steps(const std::string& name) { name_ = name.substr(0, longest_name); }

  /// An input of the program.
  [[nodiscard]] value input(const std::string& name, const tensor_spec& spec);
  /// A constant of the program. Without a name, it has that of the steps and a number.
  [[nodiscard]] program_value constant(const host_tensor& elements, const std::string& name);
  /// States the layout of a value of the program that is a view of another one.
  void record_view(const program_value& added, const program_value& viewed,
                   const tensor_layout& layout, const view_function& apply);

  /// Adds a step with one result.
  template <class Operation>
  [[nodiscard]] value add(Operation operation) {
    static_assert(!sluice::detail::has_several_results<Operation>());
    return add_all(std::move(operation)).front();
  }
  /// Adds a step, and returns all of its results, in order.
  template <class Operation>
  [[nodiscard]] results add_all(Operation operation) {
    auto operands = sluice::detail::operands_of(operation);
    budget_.take_values(operands.size());
    const auto specs = specs_of(operands);
    inference_for<Operation> inferred(operands, specs);
    call_storage call;
    const auto& descriptor = sluice::detail::find_descriptor(operation);
    descriptor.infer(&operation, inferred, call);
    inferred.require_results();
    add_cost(descriptor.name(), descriptor.facts(call), inferred);
    add_step_to_memory(operands);
    const auto layouts = result_layouts(inferred);
    if (separate_ != nullptr) return add_separately(descriptor.name(), operation, layouts);
    return add_to_program(std::move(operation), layouts);
  }
  /// The value, or a copy of it if it is no result of a step and so can be no output.
  [[nodiscard]] value as_output(const value& output);
  /// What a run costs that has these outputs.
  [[nodiscard]] model_cost cost(const std::vector<value>& outputs) const;
  [[nodiscard]] program build(const std::vector<value>& outputs) &&;
  /// The steps with these outputs, with `separate`.
  [[nodiscard]] model_steps build_steps(std::vector<std::string> inputs,
                                        const std::vector<value>& outputs) &&;

 private:
  /// Each step and constant has a copy of a name.
  static constexpr std::size_t longest_name = 256;

  using result_layout_list = std::vector<std::optional<tensor_layout>>;

  /// The number of a value of the program.
  [[nodiscard]] static std::uint32_t number_of(const operand& value) noexcept {
    return value.reference().index;
  }
  /// The numbers of values.
  [[nodiscard]] static std::vector<std::uint32_t> numbers_of(const std::vector<value>& values);
  /// Adds a step that has been inferred.
  template <class Operation>
  [[nodiscard]] results add_to_program(Operation operation, const result_layout_list& layouts) {
    if constexpr (sluice::detail::has_several_results<Operation>()) {
      return record_results(builder_.add(name_, std::move(operation)), layouts);
    } else {
      return record_results({builder_.add(name_, std::move(operation))}, layouts);
    }
  }
  /// Likewise. The step also becomes a program of its own.
  template <class Operation>
  [[nodiscard]] results add_separately(std::string_view operation_name, const Operation& operation,
                                       const result_layout_list& layouts) {
    auto added = add_to_program(operation, layouts);
    std::vector<std::uint32_t> numbers;
    std::vector<bool> is_made;
    for (std::size_t i = 0; i < added.size(); ++i) {
      numbers.push_back(number_of(added[i]));
      is_made.push_back(layouts[i].has_value());
    }
    separate_->add_step(name_, operation_name, operation, numbers, is_made, budget_);
    return added;
  }

  /// States the layout of a value of the program.
  void record(const program_value& added, const tensor_layout& layout);
  void add_cost(std::string_view operation, const launch_facts& facts, const inference& inferred);
  void add_step_to_memory(std::span<const named_operand> operands);
  [[nodiscard]] std::vector<std::optional<tensor_spec>> specs_of(
      std::span<const named_operand> operands) const;
  [[nodiscard]] static result_layout_list result_layouts(const inference& inferred);
  [[nodiscard]] results record_results(const std::vector<program_value>& added,
                                       const result_layout_list& layouts);

  import_budget& budget_;
  step_programs* separate_;
  source_sets sources_;
  double work_ = 0;
  double arithmetic_ = 0;
  value_memory memory_;
  program_builder builder_;
  std::string name_;
  std::uint32_t constants_ = 0;
  std::unordered_map<std::uint32_t, tensor_spec> specs_;  // by value of the program
  std::unordered_map<std::uint32_t, bool> is_result_;
};

/// The properties of a value with this layout, in memory as it is allocated.
[[nodiscard]] tensor_spec spec_of(const tensor_layout& layout) noexcept;

}  // namespace sluice::models
