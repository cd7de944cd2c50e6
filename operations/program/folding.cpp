// SPDX-License-Identifier: Apache-2.0
#include "operations/program/folding.hpp"

#include "operations/aligned.hpp"
#include "operations/core/work.hpp"
#include "operations/program/program_graph.hpp"

#include <algorithm>

namespace sluice::operations {
namespace {

using detail::program_graph;
using value_kind = program_graph::value_kind;

constexpr std::size_t max_result_bytes = std::size_t{16} << 20U;
constexpr std::size_t max_folded_bytes = std::size_t{64} << 20U;  // of all results
constexpr double max_folded_work = 1e8;  // of all steps, about 0.1 s: other plans wait for them
// Of all steps on a GPU. The driver blocks at about a thousand, and holds its lock meanwhile.
constexpr std::size_t max_folded_commands = 128;

/// Whether the planner can compute an operation on devices of a kind.
bool suits_planner(const operation_descriptor& descriptor, device_kind kind) {
  if (descriptor.makes_plans(kind)) return false;
  if (kind == device_kind::host) return !descriptor.has_libraries(kind);
  const auto library = descriptor.library(kind);
  const bool has_kernels_alone = library == "sluice" || library == "own";
  return descriptor.can_be_captured() && (has_kernels_alone || !descriptor.has_libraries(kind));
}

bool folds(const program_graph& graph, const program_inference& inferred, const folding& folded,
           device_kind kind, std::uint32_t number) {
  const auto& step = graph.steps()[number];
  const auto& inference = inferred.steps[number];
  // An error that a step finds is the answer of each run.
  if (step.outputs.size() != 1 || !step.scalars.empty() ||
      inference.descriptor->facts(inference.call).errors != error_detection::none ||
      !suits_planner(*inference.descriptor, kind)) {
    return false;
  }
  const auto output = step.outputs.front();
  const auto value = graph.results()[step.first_result].value;
  if (step.operands[output] != program_graph::none || graph.use_of(value).outputs != 0 ||
      graph.use_of(value).steps == 0) {
    return false;
  }
  bool has_inputs = false;
  for (std::uint32_t i = 0; i < step.operands.size(); ++i) {
    if (inference.uses[i].packed) return false;
    if (i == output || step.operands[i] == program_graph::none) continue;
    if (!folded.place_of_value(graph, inferred, step.operands[i])) return false;
    has_inputs = true;
  }
  const auto bytes = inferred.values[value].spec().bytes();
  return has_inputs && bytes != 0 && bytes <= max_result_bytes;
}

}  // namespace

std::optional<std::size_t> folding::offset_of(std::uint32_t number) const noexcept {
  const auto position =
      std::lower_bound(steps.begin(), steps.end(), number,
                       [](const step& s, std::uint32_t other) { return s.number < other; });
  if (position == steps.end() || position->number != number) return std::nullopt;
  return position->offset;
}

std::optional<constant_place> folding::place_of_value(const program_graph& graph,
                                                      const program_inference& inferred,
                                                      std::uint32_t value) const {
  const auto& source = graph.values()[graph.viewed(value)];
  std::optional<constant_place> place;
  if (source.kind == value_kind::constant) {
    const auto& constant = graph.constants()[source.source];
    if (constant.on_host) place = constant.place;
  } else if (source.kind == value_kind::result) {
    if (const auto offset = offset_of(graph.results()[source.source].step)) {
      place = constant_place{.offset = *offset};
    }
  }
  if (place) place->offset += inferred.values[value].layout.offset();
  return place;
}

folding unfolded(const program_graph& graph) {
  return {.bytes = graph.own_constants_bytes()};
}

folding fold(const program_graph& graph, const program_inference& inferred, device_kind kind) {
  auto folded = unfolded(graph);
  if (graph.host_constants_bytes() == 0) return folded;
  const auto limit = folded.bytes + max_folded_bytes;
  double work = 0;
  std::size_t commands = 0;
  for (std::uint32_t s = 0; s < graph.steps().size(); ++s) {
    if (!folds(graph, inferred, folded, kind, s)) continue;
    const auto value = graph.results()[graph.steps()[s].first_result].value;
    const auto bytes = aligned(inferred.values[value].spec().bytes());
    const auto& step = inferred.steps[s];
    const auto facts = step.descriptor->facts(step.call);
    const auto more = work_of(facts, step.uses);
    if (bytes > limit - folded.bytes || work + more > max_folded_work) continue;
    if (kind != device_kind::host && facts.commands > max_folded_commands - commands) continue;
    work += more;
    commands += kind != device_kind::host ? facts.commands : 0;
    folded.steps.push_back({s, folded.bytes});
    folded.bytes += bytes;
  }
  return folded;
}

}  // namespace sluice::operations
