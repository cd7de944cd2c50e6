// SPDX-License-Identifier: Apache-2.0
#include "operations/program/following_steps.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice::operations {

using detail::program_graph;
using value_kind = program_graph::value_kind;

following_steps::following_steps(const program_graph& graph, const program_inference& inferred,
                                 const folding& folded)
    : graph_(graph),
      inferred_(inferred),
      readers_(readers_of(graph)),
      overwriters_(overwriters_of(graph, inferred)),
      is_apart_(steps_apart(graph, inferred, folded)) {}

std::uint32_t following_steps::only_reader_of(std::uint32_t value, const fusion& groups) const {
  const auto& readers = readers_[value];
  if (graph_.use_of(value).outputs != 0 || readers.size() != 1) return fusion::none;
  const auto step = readers.front();
  return is_apart_[step] || groups.group_of_step[step] != fusion::none ? fusion::none : step;
}

bool following_steps::may_wait(const std::vector<std::uint32_t>& steps, std::uint32_t last) const {
  std::size_t longer = 0;
  for (const auto s : steps) {
    for (const auto operand : graph_.steps()[s].operands) {
      if (operand == program_graph::none) continue;
      const auto viewed = graph_.viewed(operand);
      const auto& source = graph_.values()[viewed];
      if (source.kind == value_kind::input && overwriters_[source.source] <= last) return false;
      if (source.kind == value_kind::result && graph_.use_of(viewed).steps <= s + 1 &&
          std::find(steps.begin(), steps.end(), graph_.results()[source.source].step) ==
              steps.end()) {
        longer += inferred_.values[viewed].spec().bytes();
      }
    }
  }
  const bool is_next = last - steps.front() == steps.size();
  return is_next ||
         longer <= inferred_.values[first_result_of(graph_, steps.front())].spec().bytes();
}

bool following_steps::is_overwritten(std::uint32_t value, std::uint32_t last) const {
  if (value == program_graph::none) return false;
  const auto& source = graph_.values()[graph_.viewed(value)];
  return source.kind == value_kind::input && overwriters_[source.source] <= last;
}

}  // namespace sluice::operations
