// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/hazards.hpp"

#include "operations/overlaps.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace sluice::operations {
namespace {

using use = inference::use;

/// With more operands, all pairs of them take longer than a search.
constexpr std::size_t most_in_pairs = 8;

bool touches(const use& u) noexcept {
  return !u.ignored && *u.operand.value;
}

/// Whether a launch may write one operand although it reads or writes `uses[number]` as well.
bool may_coincide(const use& written, const use& other, std::size_t number) noexcept {
  if (written.written_last && other.access == access_kind::read) return true;
  return number < max_operands && (written.in_place_of >> number & 1U) != 0 &&
         written.operand.value->value() == other.operand.value->value();
}
error refusal(const use& written, const use& other) {
  return invalid_argument(written.operand.name,
                          "shares memory with " + std::string(other.operand.name));
}

/// The same for many operands, such as those of a program.
void check_aliasing_of_many(std::span<const use> uses) {
  std::vector<touched_tensor> touched;
  touched.reserve(uses.size());
  const tensor none;
  for (const auto& u : uses) {
    touched.push_back(
        {touches(u) ? &u.operand.value->value() : &none, u.access != access_kind::read});
  }
  const auto ended = for_each_overlap(touched, [&](std::size_t i, std::size_t j) {
    if (!may_coincide(uses[i], uses[j], j)) throw refusal(uses[i], uses[j]);
    return !uses[i].written_last;
  });
  if (ended.refused) {
    throw invalid_argument(uses[*ended.refused].operand.name,
                           "interleaves with too many operands to tell whether they share memory");
  }
}

}  // namespace

void check_aliasing(std::span<const use> uses) {
  if (uses.size() > most_in_pairs) return check_aliasing_of_many(uses);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto& written = uses[i];
    if (written.access == access_kind::read || !touches(written)) continue;
    for (std::size_t j = 0; j < uses.size(); ++j) {
      const auto& other = uses[j];
      if (i == j || !touches(other) || (j < i && other.access != access_kind::read)) continue;
      if (may_coincide(written, other, j)) continue;
      if (overlap(written.operand.value->value(), other.operand.value->value())) {
        throw refusal(written, other);
      }
    }
  }
}

}  // namespace sluice::operations
