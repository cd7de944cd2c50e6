// SPDX-License-Identifier: Apache-2.0
#include "operations/program/fusible_step.hpp"

#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/reduce_functions.hpp"
#include "operations/program/program_graph.hpp"

#include <sluice/operations/program_step.hpp>

#include <algorithm>
#include <cstddef>

namespace sluice::operations {
namespace {

using detail::program_graph;

static_assert(fusible_step::no_value == program_graph::none);

/// Whether a step updates no operand, and reads all of them as they are.
bool makes_one_result(const program_graph::step& step, const program_inference::step& inferred) {
  if (step.outputs.size() != 1 || step.operands[step.outputs.front()] != program_graph::none)
    return false;
  return std::none_of(inferred.uses.begin(), inferred.uses.end(),
                      [](const auto& u) { return u.packed; });
}

std::optional<fusible_step> fusible_map(const program_graph& graph, const program_inference& run,
                                        std::uint32_t number) {
  const auto& step = graph.steps()[number];
  const auto& inferred = run.steps[number];
  const auto call = fused_call_of(*inferred.descriptor, inferred.call);
  if (!call) return std::nullopt;
  fusible_step result{.call = *call, .result = graph.results()[step.first_result].value};
  const auto inputs = inputs_of(*call);
  std::array<std::optional<tensor_spec>, fused_map::max_arguments> specs;
  std::size_t k = 0;
  for (std::uint32_t i = 0; i < step.operands.size(); ++i) {
    if (i == step.outputs.front()) continue;
    if (k == inputs) return std::nullopt;
    if (step.operands[i] != program_graph::none && !inferred.uses[i].ignored) {
      result.inputs[k] = step.operands[i];
      specs[k] = run.values[step.operands[i]].spec();
    }
    ++k;
  }
  const auto spec = run.values[result.result].spec();
  const auto strides = input_strides(*call, spec, specs);
  if (!strides) return std::nullopt;
  result.shape = spec.shape;
  result.strides = *strides;
  result.call = flattened(*call);
  return result;
}

/// A reduction that can be the last step of a group.
std::optional<fusible_step> fusible_reduction(const program_graph& graph,
                                              const program_inference& run, std::uint32_t number) {
  const auto& step = graph.steps()[number];
  const auto& inferred = run.steps[number];
  const auto* const typed =
      dynamic_cast<const detail::typed_program_step<reduce>*>(step.operation.get());
  const auto* const call = reduce_call_of(*inferred.descriptor, inferred.call);
  if (typed == nullptr || call == nullptr || call->results.count == 0 || call->reduced.count == 0 ||
      call->kind == reduction::argmax || call->kind == reduction::argmin) {
    return std::nullopt;
  }
  const auto x = step.operands[detail::operand_index(&reduce::x)];
  const auto& layout = run.values[x].layout;
  return fusible_step{.result = graph.results()[step.first_result].value,
                      .inputs = {x, fusible_step::no_value, fusible_step::no_value},
                      .shape = layout.shape(),
                      .strides = {layout.strides()},
                      .reduction = *call,
                      .is_reduced = reduced_dimensions(typed->operation(), layout.rank()),
                      .keeps_dimensions = typed->operation().keep_dims};
}

}  // namespace

std::optional<fusible_step> fusible_step_of(const program_graph& graph,
                                            const program_inference& inferred,
                                            std::uint32_t number) {
  if (!makes_one_result(graph.steps()[number], inferred.steps[number])) return std::nullopt;
  auto step = fusible_map(graph, inferred, number);
  return step ? step : fusible_reduction(graph, inferred, number);
}

void add_reduction(fused_map& map, const fusible_step& last, const tensor_layout& y,
                   const fused_operands& operands) {
  const auto y_strides = y.strides();
  extents shapes[2];  // of the results, and of the elements of each
  std::array<extents, fused_map::operands> strides[2];
  for (std::size_t d = 0, kept = 0; d < last.shape.size(); ++d) {
    const std::size_t part = last.is_reduced[d] ? 1 : 0;
    shapes[part].push_back(last.shape[d]);
    for (std::size_t k = 0; k < fused_map::operands; ++k) {
      // Those that there are not merge as the others do.
      const auto& operand = operands.strides[k <= map.inputs ? k : 1];
      strides[part][k].push_back(k == 0 && part == 0 ? y_strides[kept] : operand[d]);
    }
    if (part == 0 || last.keeps_dimensions) ++kept;
  }
  auto types = operands.types;
  auto& reduced = map.reduced.emplace();
  reduced.elements = make_layout<fused_map::operands>(shapes[1], strides[1], types);
  types[0] = y.type();
  map.layout = make_layout<fused_map::operands>(shapes[0], strides[0], types);
  reduced.call = last.reduction;
  reduced.along_rows =
      smallest_stride(reduced.call.reduced, 0) <= smallest_stride(reduced.call.results, 1);
  distribute(reduced.call, 1 + static_cast<std::int64_t>(map.functions.size()));
  // Results are numbered as the map numbers them.
  auto& results = reduced.call.results;
  results.rank = map.layout.rank;
  std::copy_n(map.layout.shape, max_dimensions, results.shape);
  std::copy_n(map.layout.strides[0], max_dimensions, results.strides[0]);
  std::fill_n(results.strides[1], max_dimensions, 0);
}

}  // namespace sluice::operations
