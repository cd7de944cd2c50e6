// SPDX-License-Identifier: Apache-2.0
#include "models/recorded_operation.hpp"

namespace sluice::models {

step_facts facts_of(std::string_view operation, const launch_facts& facts,
                    const inference& inferred) {
  step_facts found{.arithmetic = arithmetic_of(operation, facts, inferred.uses()),
                   .work = facts.work};
  for (const auto& use : inferred.uses()) {
    if (use.operand.role == member_role::output) found.results.push_back(use.spec);
    if (!use.spec) continue;
    double elements = 1;  // a number that may overflow an integer
    for (const auto extent : use.spec->shape) elements *= static_cast<double>(extent);
    found.work += elements;
  }
  return found;
}

}  // namespace sluice::models
