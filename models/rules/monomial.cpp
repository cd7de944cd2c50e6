// SPDX-License-Identifier: Apache-2.0
#include "models/rules/monomial.hpp"

#include <cmath>

namespace sluice::models {
namespace {

using number = step_graph::number;

/// Functions have no longer products.
constexpr std::size_t most_steps = 8;

class expansion {
 public:
  explicit expansion(const optimizer& state) : state_(state) {}

  void add(number value, int exponent, bool is_first) {
    value = state_.graph().resolve(value);
    if (const auto constant = state_.number_of(value)) {
      result_.factor *= std::pow(*constant, exponent);
      return;
    }
    const bool is_inner = is_first || state_.graph().uses(value) == 1;
    const auto* const step = is_inner && result_.steps.size() < most_steps
                                 ? state_.maker<binary>(value, nullptr)
                                 : nullptr;
    if (step == nullptr || !expand(*step, value, exponent)) {
      auto& power = result_.powers[value];
      // x / x is no 1 where x is 0, infinite or NaN.
      if (power * exponent < 0) result_.factor = std::nan("");
      power += exponent;
    }
  }
  [[nodiscard]] monomial take() { return std::move(result_); }

 private:
  [[nodiscard]] bool expand(const binary& step, number value, int exponent) {
    switch (step.function.value_or(binary_function::add)) {
      case binary_function::multiply:
        note(value);
        add(step.a, exponent);
        add(step.b, exponent);
        return true;
      case binary_function::divide:
        note(value);
        add(step.a, exponent);
        add(step.b, -exponent);
        return true;
      case binary_function::power: {
        const auto power = state_.number_of(step.b);
        if (!power || (*power != 2 && *power != 3) || !step.a) return false;
        note(value);
        add(step.a, exponent * static_cast<int>(*power));
        return true;
      }
      default:
        return false;
    }
  }
  void add(const operand_or_number& x, int exponent) {
    if (x) {
      add(state_.value_of(x), exponent, false);
    } else {
      result_.factor *= std::pow(state_.number_of(x).value_or(std::nan("")), exponent);
    }
  }
  void note(number value) { result_.steps.push_back(state_.graph().step_of(value)); }

  const optimizer& state_;
  monomial result_;
};

}  // namespace

monomial monomial_of(const optimizer& state, number value) {
  expansion result(state);
  result.add(value, 1, true);
  return result.take();
}

std::optional<successor> successor_of(const optimizer& state, number value) {
  const auto* const sum = state.maker(value, binary_function::add, nullptr);
  if (sum == nullptr) return std::nullopt;
  const auto parts = state.operands_with_number(*sum);
  if (!parts || parts->constant != 1) return std::nullopt;
  return successor{parts->value, state.graph().step_of(state.graph().resolve(value))};
}

}  // namespace sluice::models
