// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/import_budget.hpp"

#include <sluice/models/model_steps.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/operation_result.hpp>
#include <sluice/operations/program.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice::models {

/// A view of a value of a program.
using view_function = std::function<program_value(const program_value&)>;

/// Makes a program of each step of another one. Its values are known by their numbers there.
class step_programs {
 public:
  /// A value that is an input, and that is numbered next.
  void add_input(std::uint32_t value) { number(value); }
  void add_constant(std::uint32_t value, std::string name, host_tensor elements) {
    constants_.insert_or_assign(value, constant{std::move(name), std::move(elements)});
  }
  void add_view(std::uint32_t value, std::uint32_t viewed, view_function apply) {
    views_.insert_or_assign(value, view{viewed, std::move(apply)});
  }
  /// A step. `results` are its results; `is_made` says which of them it makes.
  template <class Operation>
  void add_step(const std::string& name, std::string_view operation_name, Operation operation,
                std::span<const std::uint32_t> results, const std::vector<bool>& is_made,
                import_budget& budget) {
    open_step step{.what = {.name = name, .operation = std::string(operation_name)}};
    for (auto& operand : sluice::detail::operands_of(operation)) {
      if (*operand.value) {
        *operand.value = place(step, operand.value->reference().index, budget);
      }
    }
    std::vector<program_value> values;
    if constexpr (sluice::detail::has_several_results<Operation>()) {
      values = step.builder.add(name, std::move(operation));
    } else {
      values.push_back(step.builder.add(name, std::move(operation)));
    }
    close(std::move(step), values, results, is_made);
  }

  /// The steps. `inputs` are the names of the inputs, and `outputs` the values that are outputs.
  [[nodiscard]] model_steps finish(std::vector<std::string> inputs,
                                   std::span<const std::uint32_t> outputs) &&;

 private:
  struct constant {
    std::string name;
    host_tensor elements;
  };
  struct view {
    std::uint32_t viewed;
    view_function apply;
  };
  /// A step whose program is being made.
  struct open_step {
    model_step what{};
    program_builder builder{};
    std::map<std::uint32_t, program_value> known{};  ///< values that it has in its program
  };

  /// The number of a value in `model_steps`, which it gets when it is first seen.
  std::size_t number(std::uint32_t value) {
    return numbers_.try_emplace(value, numbers_.size()).first->second;
  }
  /// The value in the program of a step.
  [[nodiscard]] program_value place(open_step& step, std::uint32_t value, import_budget& budget);
  void close(open_step step, const std::vector<program_value>& values,
             std::span<const std::uint32_t> results, const std::vector<bool>& is_made);

  std::unordered_map<std::uint32_t, std::size_t> numbers_;
  std::unordered_map<std::uint32_t, constant> constants_;
  std::unordered_map<std::uint32_t, view> views_;
  std::vector<model_step> steps_;
};

}  // namespace sluice::models
