// SPDX-License-Identifier: Apache-2.0
#include "models/recorded_operation.hpp"

#include <sluice/runtime/error.hpp>

namespace sluice::models {

step_facts facts_of(std::string_view operation, const launch_facts& facts,
                    const inference& inferred) {
  step_facts found{.arithmetic = arithmetic_of(operation, facts, inferred.uses()),
                   .work = facts.work};
  for (const auto& use : inferred.uses()) {
    const bool is_given = use.operand.role == member_role::output && *use.operand.value;
    if (is_given && use.access != access_kind::read_write)
      throw invalid_argument(use.operand.name, "is given, but the operation does not read it");
    if (use.operand.role == member_role::output) found.results.push_back(use.spec);
    if (!use.spec) continue;
    double elements = 1;  // a number that may overflow an integer
    for (const auto extent : use.spec->shape) elements *= static_cast<double>(extent);
    found.work += elements;
  }
  return found;
}

}  // namespace sluice::models
