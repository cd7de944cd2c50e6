// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/export/operation_types.hpp"
#include "models/export/parameter_form.hpp"
#include "models/node.hpp"
#include "models/operator_table.hpp"

#include <sluice/operations.hpp>
#include <sluice/runtime/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::detail {
struct program_view;
}  // namespace sluice::detail

namespace sluice::models {

/// The domain of the operators that are the operations of sluice, and its version.
///@{
inline constexpr std::string_view own_domain = "sluice";
inline constexpr std::int64_t own_domain_version = 1;
///@}

/// How the steps of an operation become nodes of the domain of sluice, and nodes become steps. The
/// name of the operator is that of the operation. The inputs are its operands in the order of its
/// members: those that it reads, and outputs that it updates. The attributes are its parameters.
struct operation_form {
  std::string_view name{};
  results (*import)(const node&) = nullptr;
  /// Writes the parameters of a step, with these numbers for its scalars of a program. Returns
  /// false if it is no step of this operation.
  bool (*write)(const sluice::detail::program_step&, std::span<const scalar>,
                onnx::NodeProto&) = nullptr;
};

/// The forms of a family of operations.
///@{
[[nodiscard]] std::vector<operation_form> element_forms();
[[nodiscard]] std::vector<operation_form> layer_forms();
[[nodiscard]] std::vector<operation_form> movement_forms();
[[nodiscard]] std::vector<operation_form> array_forms();
///@}

/// The form of an operation; nullptr if sluice has no operation of this name.
[[nodiscard]] const operation_form* find_form(std::string_view name);

/// The operator of the domain of sluice with this name, an operation or a view; nullptr if there is
/// none.
[[nodiscard]] const operator_entry* find_own_operator(std::string_view name);
/// The views of `program_value` as operators.
[[nodiscard]] std::span<const operator_entry> view_operators();
/// Writes the parameters of a view as attributes. Returns the name of its operator.
[[nodiscard]] const char* write_view_parameters(const sluice::detail::program_view& view,
                                                onnx::NodeProto& message);

namespace detail {

/// Whether an operation is a family of functions, and the number of these.
///@{
template <class Operation>
inline constexpr bool has_function =
    std::is_same_v<Operation, unary> || std::is_same_v<Operation, binary>;
template <class Operation>
inline constexpr std::size_t function_count =
    std::is_same_v<Operation, unary> ? unary_function_count : binary_function_count;
///@}
/// The function of its family that the name of an operator states.
template <class Operation, class Function>
void set_function(std::string_view name, std::optional<Function>& function, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    function = static_cast<Function>(i);
    if (descriptor_of(Operation{.function = function}).name() == name) return;
  }
}

/// Makes the inputs of a node the operands of an operation.
template <class Operation>
void read_operands(const node& n, Operation& operation) {
  std::size_t next = 0;
  const auto read = [&](const auto& member) {
    auto& value = operation.*member.pointer;
    using type = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<type, std::vector<operand>>) {
      // The list is the only operand that such a node states.
      for (const auto& input : n.all_inputs()) value.emplace_back(input);
      next = n.input_count();
    } else if constexpr (std::is_base_of_v<operand, type>) {
      const auto number = next++;
      if (!n.has_input(number)) return;
      if constexpr (std::is_same_v<type, operand_or_number>) {
        if (value.number()) throw n.refusal(member.name, "is an input and an attribute");
      }
      value = operand(n.input(number));
    }
  };
  std::apply([&](const auto&... member) { (read(member), ...); }, Operation::members());
  if (n.input_count() > next) {
    throw n.refusal("input " + std::to_string(next), "is not one of the operation");
  }
}

template <class Operation>
[[nodiscard]] results import_operation(const node& n) {
  Operation operation;
  if constexpr (has_function<Operation>)
    set_function<Operation>(n.op_type(), operation.function, function_count<Operation>);
  read_parameters(n.attributes(), n.op_type(), operation);
  read_operands(n, operation);
  return n.add_as_stated(std::move(operation));
}

/// The operation of a step, with these numbers for its scalars of a program; nothing if it is no
/// step of this operation.
template <class Operation>
[[nodiscard]] std::optional<Operation> operation_of(const sluice::detail::program_step& step,
                                                    std::span<const scalar> scalars) {
  const auto* const typed =
      dynamic_cast<const sluice::detail::typed_program_step<Operation>*>(&step);
  if (typed == nullptr) return std::nullopt;
  auto operation = typed->operation();
  std::size_t next = 0;
  sluice::detail::for_each_scalar_of_program(
      operation, [&](std::string_view, scalar& number) { number = scalars[next++]; });
  return operation;
}

template <class Operation>
[[nodiscard]] bool write_operation(const sluice::detail::program_step& step,
                                   std::span<const scalar> scalars, onnx::NodeProto& message) {
  const auto operation = operation_of<Operation>(step, scalars);
  if (!operation) return false;
  if constexpr (sluice::detail::has_operand_list<Operation>()) {
    for (const auto& operand : step.operands()) {
      if (operand.role == member_role::output && *operand.value)
        throw error(errc::unsupported, std::string(operand.name) + ": the output is given");
    }
  }
  write_parameters(*operation, message);
  return true;
}

}  // namespace detail

/// The form of an operation with this name.
template <class Operation>
[[nodiscard]] operation_form form_of(std::string_view name) {
  return {name, detail::import_operation<Operation>, detail::write_operation<Operation>};
}

namespace detail {

/// One form for each function of a family.
template <class Operation>
void add_form(std::vector<operation_form>& forms) {
  if constexpr (has_function<Operation>) {
    using function = typename decltype(Operation::function)::value_type;
    for (std::size_t i = 0; i < function_count<Operation>; ++i) {
      const Operation operation{.function = static_cast<function>(i)};
      forms.push_back(form_of<Operation>(descriptor_of(operation).name()));
    }
  } else {
    forms.push_back(form_of<Operation>(sluice::detail::find_descriptor(Operation()).name()));
  }
}

}  // namespace detail

/// The forms of the operations of a list.
template <class... Operation>
[[nodiscard]] std::vector<operation_form> forms_of(operation_types<Operation...>) {
  std::vector<operation_form> forms;
  (detail::add_form<Operation>(forms), ...);
  return forms;
}

}  // namespace sluice::models
