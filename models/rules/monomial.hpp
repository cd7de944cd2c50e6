// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/optimizer.hpp"

#include <cstddef>
#include <map>
#include <vector>

namespace sluice::models {

/// A product of a number and powers of values: 0.5 · x³ · y.
struct monomial {
  double factor = 1;                           ///< NaN if a value is divided by itself
  std::map<step_graph::number, int> powers{};  ///< exponents by value
  std::vector<std::size_t> steps{};            ///< that compute it

  /// Whether it is a number times a power of `value`.
  [[nodiscard]] bool is_of(step_graph::number value, int exponent) const {
    return powers.size() == 1 && powers.begin()->first == value &&
           powers.begin()->second == exponent;
  }
  /// The exponent of a value.
  [[nodiscard]] int power_of(step_graph::number value) const {
    const auto found = powers.find(value);
    return found != powers.end() ? found->second : 0;
  }
  /// The other one of two values, both with the exponent 1; nothing if it has not this form.
  [[nodiscard]] std::optional<step_graph::number> other_than(step_graph::number value) const {
    if (powers.size() != 2 || power_of(value) != 1) return {};
    const auto& other = powers.begin()->first == value ? *powers.rbegin() : *powers.begin();
    return other.second == 1 ? std::optional(other.first) : std::nullopt;
  }
};

/// The products, quotients and powers that a value is computed with. Those whose result others read
/// are not looked at, except that of the value itself.
[[nodiscard]] monomial monomial_of(const optimizer& state, step_graph::number value);

/// 1 + x, as the value x and the step; nothing if a value is no such sum.
struct successor {
  step_graph::number x = 0;
  std::size_t step = 0;
};
[[nodiscard]] std::optional<successor> successor_of(const optimizer& state,
                                                    step_graph::number value);

}  // namespace sluice::models
