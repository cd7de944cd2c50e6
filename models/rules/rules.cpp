// SPDX-License-Identifier: Apache-2.0
#include "models/rules/rules.hpp"

#include <array>

namespace sluice::models {

std::span<const optimization_rule> optimization_rules() {
  static constexpr std::array<optimization_rule, 0> rules{};
  return rules;
}

}  // namespace sluice::models
