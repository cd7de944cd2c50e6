// SPDX-License-Identifier: Apache-2.0
#include "operations/core/work.hpp"

namespace sluice::operations {

double work_of(const launch_facts& facts, std::span<const inference::use> uses) noexcept {
  double sum = facts.work;
  for (const auto& u : uses) {
    if (u.ignored || !u.spec) continue;
    double elements = 1;  // a number that may overflow an integer
    for (const auto extent : u.spec->shape) elements *= static_cast<double>(extent);
    sum += elements;
  }
  return sum;
}

}  // namespace sluice::operations
