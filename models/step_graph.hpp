// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/recorded_operation.hpp"
#include "models/value_view.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/operand.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::models {

/// The inputs, constants, views and steps of a program that is being made. Unlike a
/// `program_builder`, it knows the shapes of its values, and it can be changed: a step may compute
/// its result in another way, and a value may be the same as another one.
///
/// Values have numbers. Steps are in an order in which each follows those whose results it reads.
class step_graph {
 public:
  using number = std::uint32_t;
  enum class value_kind : std::uint8_t { input, constant, view, result };

  struct step {
    std::string name{};
    std::unique_ptr<recorded_operation> operation{};  ///< nullptr if the step is left out
    number first_result = 0;
    std::vector<bool> is_made{};  ///< by result
    double arithmetic = 0;
  };
  struct constant {
    std::string name{};
    host_tensor elements{};
  };
  struct view {
    number viewed = 0;
    value_view what{};
  };

  /// Each returns the number of the value, or of the first result.
  ///@{
  number add_input(std::string name, const tensor_spec& spec);
  number add_constant(std::string name, host_tensor elements);
  number add_view(number viewed, const value_view& what, const tensor_spec& spec);
  number add_step(std::string name, std::unique_ptr<recorded_operation> operation,
                  const step_facts& facts);
  ///@}

  [[nodiscard]] std::size_t value_count() const noexcept { return values_.size(); }
  [[nodiscard]] const std::vector<std::string>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] number input_value(std::size_t input) const noexcept {
    return input_values_[input];
  }
  [[nodiscard]] const std::vector<step>& steps() const noexcept { return steps_; }

  /// The value that is the same as this one.
  [[nodiscard]] number resolve(number value) const noexcept;
  /// The value that it is a view of, through all views; or itself.
  [[nodiscard]] number root(number value) const noexcept;
  [[nodiscard]] const tensor_spec& spec(number value) const noexcept {
    return values_[resolve(value)].spec;
  }
  [[nodiscard]] value_kind kind(number value) const noexcept {
    return values_[resolve(value)].kind;
  }
  /// Of a value of this kind.
  ///@{
  [[nodiscard]] number input_of(number value) const noexcept {
    return values_[resolve(value)].source;
  }
  [[nodiscard]] const constant& constant_of(number value) const noexcept {
    return constants_[values_[resolve(value)].source];
  }
  [[nodiscard]] const view& view_of(number value) const noexcept {
    return views_[values_[resolve(value)].source];
  }
  /// The number of the step that makes a result.
  [[nodiscard]] std::size_t step_of(number value) const noexcept {
    return values_[resolve(value)].source;
  }
  ///@}

  /// Counts what reads each value, and leaves out the steps that nothing reads. Called once, before
  /// the graph is changed. Returns the steps that are left out.
  std::vector<std::size_t> count_uses(std::span<const number> outputs);
  /// How many operands, views that are used, and outputs a value is.
  [[nodiscard]] std::uint32_t uses(number value) const noexcept {
    return values_[resolve(value)].uses;
  }
  [[nodiscard]] bool is_output(number value) const noexcept {
    return values_[resolve(value)].is_output;
  }

  /// What is known of a step with this operation.
  /// @throws error what the operation refuses
  [[nodiscard]] step_facts infer(const recorded_operation& operation) const;
  /// Lets a step, which has one result, compute it with another operation. Steps that nothing reads
  /// any more are left out. `result` is the number of its result from now on.
  void replace(std::size_t step_number, std::unique_ptr<recorded_operation> operation,
               const step_facts& facts);
  /// Likewise, where the result is a view of that of the new operation.
  void replace(std::size_t step_number, std::unique_ptr<recorded_operation> operation,
               const step_facts& facts, const value_view& what);
  /// Lets `other`, which is as good, stand for a value.
  void forward(number value, number other);

 private:
  static constexpr number none = ~number{0};
  struct entry {
    tensor_spec spec{};
    value_kind kind = value_kind::input;
    bool is_output = false;
    number source = 0;  ///< number of the input, constant, view or step
    number root = 0;    ///< through views, when it was added
    number same_as = none;
    std::uint32_t uses = 0;
  };

  number add(const tensor_spec& spec, value_kind kind, std::size_t source);
  void add_use(number value);
  /// Removes a use of each. Views and steps that are not used any more use nothing.
  void remove_uses(std::vector<number> values);

  std::vector<std::string> inputs_;
  std::vector<number> input_values_;
  std::vector<constant> constants_;
  std::vector<view> views_;
  std::vector<step> steps_;
  std::vector<entry> values_;
};

/// A value of a graph as an operand of an operation that is added to it.
[[nodiscard]] inline operand operand_of(step_graph::number value) noexcept {
  return operand(value_reference{.program = 1, .index = value});
}

}  // namespace sluice::models
