// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/derived_constants.hpp"
#include "models/element_types.hpp"
#include "models/recorded_operation.hpp"
#include "models/step_graph.hpp"

#include <sluice/models/model.hpp>
#include <sluice/operations/binary.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/operand.hpp>
#include <sluice/operations/unary.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::models {

/// What a rule sees of a graph whose uses are counted, and how it changes it.
///
/// A rule looks at one step and at those before it. If they are what it knows, it lets this step
/// compute its result in another way. The others are left out then, because nothing else may read
/// their results.
class optimizer {
 public:
  using number = step_graph::number;

  optimizer(step_graph& graph, derived_constants& derived) noexcept
      : graph_(graph), derived_(derived) {}

  [[nodiscard]] step_graph& graph() noexcept { return graph_; }
  [[nodiscard]] const step_graph& graph() const noexcept { return graph_; }
  /// The constants that imports of this model compute.
  [[nodiscard]] derived_constants& derived() noexcept { return derived_; }

  /// The operation of a step, if it is of this type; otherwise nullptr.
  template <class Operation>
  [[nodiscard]] const Operation* operation(std::size_t step) const {
    const auto* const typed = dynamic_cast<const typed_recorded_operation<Operation>*>(
        graph_.steps()[step].operation.get());
    return typed != nullptr ? &typed->operation() : nullptr;
  }
  /// Likewise of the step that makes a value. `steps`, if it is given, gets the step.
  template <class Operation>
  [[nodiscard]] const Operation* maker(number value, std::vector<std::size_t>* steps) const {
    value = graph_.resolve(value);
    if (graph_.kind(value) != step_graph::value_kind::result) return nullptr;
    const auto* const found = operation<Operation>(graph_.step_of(value));
    if (found != nullptr && steps != nullptr) steps->push_back(graph_.step_of(value));
    return found;
  }
  /// Likewise of a `unary` or a `binary` with this function.
  ///@{
  [[nodiscard]] const unary* maker(number value, unary_function function,
                                   std::vector<std::size_t>* steps) const;
  [[nodiscard]] const binary* maker(number value, binary_function function,
                                    std::vector<std::size_t>* steps) const;
  ///@}

  /// The value that an operand is.
  [[nodiscard]] number value_of(const operand& x) const noexcept {
    return graph_.resolve(x.reference().index);
  }
  /// The real number that all elements of a constant are, if it has one element.
  ///@{
  [[nodiscard]] std::optional<double> number_of(number value) const;
  [[nodiscard]] std::optional<double> number_of(const operand_or_number& x) const;
  ///@}
  /// A sum or a product of a value and a number.
  struct with_number {
    number value = 0;
    double constant = 0;
  };
  [[nodiscard]] std::optional<with_number> operands_with_number(const binary& operation) const;
  /// The constant that a value is, or is a view of with all elements in their order.
  [[nodiscard]] const host_tensor* constant_of(number value) const;

  /// Whether nothing but these steps and `last` reads what these steps make.
  [[nodiscard]] bool is_closed(std::span<const std::size_t> steps, std::size_t last) const;

  /// Lets a step with one result compute it with another operation, if that makes the same elements
  /// in the same order in memory. Returns whether it does.
  template <class Operation>
  bool replace(std::size_t step, Operation operation) {
    return replace_recorded(
        step, std::make_unique<typed_recorded_operation<Operation>>(std::move(operation)));
  }
  /// Likewise, where the result is a view of that of the operation.
  template <class Operation>
  bool replace(std::size_t step, Operation operation, const value_view& what) {
    return replace_recorded(
        step, std::make_unique<typed_recorded_operation<Operation>>(std::move(operation)), what);
  }
  /// A view of a value; nothing if its elements do not lie so.
  [[nodiscard]] std::optional<number> view(number value, const value_view& what);

  /// Takes the work of a rule that computes constants. Returns whether it may do that.
  [[nodiscard]] bool take_elements(std::size_t count) noexcept;

  void log(std::string_view rule, std::size_t step);
  [[nodiscard]] std::vector<model_optimization>& done() noexcept { return done_; }

 private:
  bool replace_recorded(std::size_t step, std::unique_ptr<recorded_operation> operation);
  bool replace_recorded(std::size_t step, std::unique_ptr<recorded_operation> operation,
                        const value_view& what);
  [[nodiscard]] std::optional<step_facts> facts_of(const recorded_operation& operation) const;

  step_graph& graph_;
  derived_constants& derived_;
  std::vector<model_optimization> done_;
  std::size_t elements_ = 0;
};

/// Whether a number of a model is meant to be another one: it is that, rounded to a type.
[[nodiscard]] bool is_rounded(double number, double exact, element_type type);

/// Optimises a graph with these outputs. Returns what has been done.
std::vector<model_optimization> optimize(step_graph& graph, derived_constants& derived,
                                         std::span<const step_graph::number> outputs);

}  // namespace sluice::models
