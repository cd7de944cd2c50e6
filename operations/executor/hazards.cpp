// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/hazards.hpp"

#include <cstddef>
#include <string>

namespace sluice::operations {
namespace {

using use = inference::use;

bool touches(const use& u) noexcept {
  return !u.ignored && *u.of.value;
}

}  // namespace

void check_aliasing(std::span<const use> uses) {
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto& written = uses[i];
    if (written.access == access_kind::read || !touches(written)) continue;
    for (std::size_t j = 0; j < uses.size(); ++j) {
      const auto& other = uses[j];
      if (i == j || !touches(other) || (j < i && other.access != access_kind::read)) continue;
      if (written.written_last && other.access == access_kind::read) continue;
      const auto& a = written.of.value->value();
      const auto& b = other.of.value->value();
      if (j < inference::max_operands && (written.in_place_of >> j & 1U) != 0 && a == b) continue;
      if (overlap(a, b)) {
        throw invalid_argument(written.of.name, "shares memory with " + std::string(other.of.name));
      }
    }
  }
}

}  // namespace sluice::operations
