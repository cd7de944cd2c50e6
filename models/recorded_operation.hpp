// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/arithmetic.hpp"

#include <sluice/operations/inference.hpp>
#include <sluice/operations/launch_descriptor.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/operation_result.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/optional_extents.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::models {

/// The value of a program that stands for a value of a graph.
using value_lookup = std::function<program_value(std::uint32_t)>;

/// What is known of a step before a run.
struct step_facts {
  std::vector<std::optional<tensor_spec>> results{};  ///< nothing if the step leaves it out
  double arithmetic = 0;                              ///< as `model_cost` counts it
  double work = 0;                                    ///< in the units of `request_limits`
};

/// An operation of a graph, without its type. Its operands refer to values of the graph.
class recorded_operation {
 public:
  recorded_operation() = default;
  recorded_operation(const recorded_operation&) = delete;
  recorded_operation& operator=(const recorded_operation&) = delete;
  virtual ~recorded_operation() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// The operands that are given, in the order of the members.
  [[nodiscard]] virtual std::vector<std::uint32_t> operands() const = 0;
  /// @throws error what the operation refuses
  [[nodiscard]] virtual step_facts infer(
      const std::function<const tensor_spec&(std::uint32_t)>& spec_of) const = 0;
  /// Whether both are the same operation with the same parameters, and have operands in the same
  /// places.
  [[nodiscard]] virtual bool has_parameters_of(const recorded_operation& other) const = 0;
  /// Adds the operation to a program. Returns its results.
  [[nodiscard]] virtual std::vector<program_value> add_to(program_builder& builder,
                                                          const std::string& step_name,
                                                          const value_lookup& find) const = 0;
};

/// The facts of a step that has been inferred.
/// @throws error `invalid_argument` with the name of an output that is given, and not updated
[[nodiscard]] step_facts facts_of(std::string_view operation, const launch_facts& facts,
                                  const inference& inferred);

namespace detail {

/// Zeros of different signs are different numbers.
[[nodiscard]] inline bool is_same_number(const scalar& a, const scalar& b) {
  if (a != b) return false;
  if (a.is_of_program() || !a.is_zero()) return true;
  const auto sign_of = [](const scalar& x) {
    return std::signbit(x.to<std::complex<double>>("number").real());
  };
  return sign_of(a) == sign_of(b);
}
[[nodiscard]] inline bool is_same_number(const std::optional<scalar>& a,
                                         const std::optional<scalar>& b) {
  return a.has_value() == b.has_value() && (!a || is_same_number(*a, *b));
}

/// Whether a member has the same value in two operations, but for the values of a graph that are
/// its operands.
template <class T>
[[nodiscard]] bool is_same_parameter(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, std::vector<operand>>) {
    return a.size() == b.size();
  } else if constexpr (std::is_same_v<T, operand_or_number>) {
    return is_same_number(a.number(), b.number()) && static_cast<bool>(a) == static_cast<bool>(b);
  } else if constexpr (std::is_same_v<T, operand>) {
    return static_cast<bool>(a) == static_cast<bool>(b);
  } else if constexpr (std::is_same_v<T, double>) {
    return a == b && std::signbit(a) == std::signbit(b);
  } else if constexpr (std::is_same_v<T, scalar> || std::is_same_v<T, std::optional<scalar>>) {
    return is_same_number(a, b);
  } else if constexpr (std::is_same_v<T, optional_extents>) {
    return a.has_value() == b.has_value() && (!a || *a == *b);
  } else if constexpr (requires { a == b; }) {
    return a == b;
  } else {
    return false;
  }
}

}  // namespace detail

template <class Operation>
class typed_recorded_operation final : public recorded_operation {
 public:
  explicit typed_recorded_operation(Operation operation) : operation_(std::move(operation)) {}

  [[nodiscard]] const Operation& operation() const noexcept { return operation_; }

  [[nodiscard]] std::string_view name() const override {
    return sluice::detail::find_descriptor(operation_).name();
  }
  [[nodiscard]] std::vector<std::uint32_t> operands() const override {
    std::vector<std::uint32_t> numbers;
    auto copy = operation_;
    for (const auto& operand : sluice::detail::operands_of(copy)) {
      if (*operand.value) numbers.push_back(operand.value->reference().index);
    }
    return numbers;
  }
  [[nodiscard]] step_facts infer(
      const std::function<const tensor_spec&(std::uint32_t)>& spec_of) const override {
    auto copy = operation_;
    const auto operands = sluice::detail::operands_of(copy);
    std::vector<std::optional<tensor_spec>> specs(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!*operands[i].value) continue;
      specs[i] = spec_of(operands[i].value->reference().index);
      // What is updated is a new value, which lies without gaps.
      if (operands[i].role == member_role::output)
        specs[i] = tensor_spec::row_major(specs[i]->type, specs[i]->shape);
    }
    inference_for<Operation> inferred(operands, specs);
    call_storage call;
    const auto& descriptor = sluice::detail::find_descriptor(copy);
    descriptor.infer(&copy, inferred, call);
    inferred.require_results();
    return facts_of(descriptor.name(), descriptor.facts(call), inferred);
  }
  [[nodiscard]] bool has_parameters_of(const recorded_operation& other) const override {
    const auto* const typed = dynamic_cast<const typed_recorded_operation*>(&other);
    if (typed == nullptr) return false;
    return std::apply(
        [&](const auto&... member) {
          return (detail::is_same_parameter(operation_.*member.pointer,
                                            typed->operation_.*member.pointer) &&
                  ...);
        },
        Operation::members());
  }
  [[nodiscard]] std::vector<program_value> add_to(program_builder& builder,
                                                  const std::string& step_name,
                                                  const value_lookup& find) const override {
    auto copy = operation_;
    for (auto& operand : sluice::detail::operands_of(copy)) {
      if (*operand.value) *operand.value = find(operand.value->reference().index);
    }
    if constexpr (sluice::detail::has_several_results<Operation>()) {
      return builder.add(step_name, std::move(copy));
    } else {
      return {builder.add(step_name, std::move(copy))};
    }
  }

 private:
  Operation operation_;
};

}  // namespace sluice::models
