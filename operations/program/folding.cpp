// SPDX-License-Identifier: Apache-2.0
#include "operations/program/folding.hpp"

#include "operations/aligned.hpp"
#include "operations/core/work.hpp"
#include "operations/program/program_graph.hpp"

#include <algorithm>
#include <array>

namespace sluice::operations {
namespace {

using detail::program_graph;
using value_kind = program_graph::value_kind;

constexpr std::size_t max_result_bytes = std::size_t{16} << 20U;
constexpr std::size_t max_folded_bytes = std::size_t{64} << 20U;  // of all results
constexpr double max_folded_work = 1e8;  // of all steps, about 0.1 s: other plans wait for them

/// The offset of a value in the memory of the constants; nothing if it is not there.
std::optional<std::size_t> offset_of_value(const program_graph& graph,
                                           const program_inference& inferred, const folding& folded,
                                           std::uint32_t number) {
  const auto& source = graph.values()[graph.viewed(number)];
  std::optional<std::size_t> offset;
  if (source.kind == value_kind::constant) {
    const auto& constant = graph.constants()[source.source];
    if (constant.on_host) offset = constant.offset;
  } else if (source.kind == value_kind::result) {
    offset = folded.offset_of(graph.results()[source.source].step);
  }
  if (offset) *offset += inferred.values[number].layout.offset();
  return offset;
}

bool folds(const program_graph& graph, const program_inference& inferred, const folding& folded,
           std::uint32_t number) {
  const auto& step = graph.steps()[number];
  const auto& inference = inferred.steps[number];
  // An error that a step finds is the answer of each run.
  if (step.outputs.size() != 1 || !step.scalars.empty() ||
      inference.descriptor->facts(inference.call).errors != error_detection::none ||
      inference.descriptor->makes_plans(device_kind::host) ||
      inference.descriptor->has_libraries(device_kind::host)) {
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
    if (!offset_of_value(graph, inferred, folded, step.operands[i])) return false;
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

folding fold(const program_graph& graph, const program_inference& inferred, device_kind kind) {
  folding folded{.bytes = graph.host_constants_bytes()};
  if (folded.bytes == 0 || kind != device_kind::host) return folded;
  const auto limit = folded.bytes + max_folded_bytes;
  double work = 0;
  for (std::uint32_t s = 0; s < graph.steps().size(); ++s) {
    if (!folds(graph, inferred, folded, s)) continue;
    const auto value = graph.results()[graph.steps()[s].first_result].value;
    const auto bytes = aligned(inferred.values[value].spec().bytes());
    const auto& step = inferred.steps[s];
    const auto more = work_of(step.descriptor->facts(step.call), step.uses);
    if (bytes > limit - folded.bytes || work + more > max_folded_work) continue;
    work += more;
    folded.steps.push_back({s, folded.bytes});
    folded.bytes += bytes;
  }
  return folded;
}

void compute(const folding& folded, const program_graph& graph, const program_inference& inferred,
             std::byte* memory) {
  for (const auto& each : folded.steps) {
    const auto& step = graph.steps()[each.number];
    const auto& inference = inferred.steps[each.number];
    std::array<void*, max_operands> addresses{};
    std::array<element_type, max_operands> types{};
    for (std::uint32_t i = 0; i < step.operands.size(); ++i) {
      const bool is_output = i == step.outputs.front();
      const auto value = is_output ? graph.results()[step.first_result].value : step.operands[i];
      if (value == program_graph::none || inference.uses[i].ignored) continue;
      addresses[i] =
          memory + (is_output ? each.offset : *offset_of_value(graph, inferred, folded, value));
      types[i] = inferred.values[value].layout.type();
    }
    naming_step(step.name, [&] {
      inference.descriptor->compute(inference.call,
                                    {.addresses = std::span(addresses).first(step.operands.size()),
                                     .types = std::span(types).first(step.operands.size())});
    });
  }
}

}  // namespace sluice::operations
