// SPDX-License-Identifier: Apache-2.0
#include "operations/program/permuted_copy.hpp"

#include <sluice/operations/attention.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/program_step.hpp>
#include <sluice/runtime/error.hpp>

#include <utility>
#include <vector>

namespace sluice::operations {
namespace {

using detail::program_graph;
using detail::typed_program_step;

template <class Operation>
bool is_step_of(const program_graph::step& step) {
  return dynamic_cast<const typed_program_step<Operation>*>(step.operation.get()) != nullptr;
}

/// The step as it writes its result with these properties. Nothing if it does not, or only with a
/// copy.
std::optional<program_inference::step> written_as(const program_graph& graph,
                                                  const program_inference& inferred,
                                                  std::uint32_t number, const tensor_spec& result,
                                                  device_kind kind) {
  const auto& step = graph.steps()[number];
  std::vector<std::optional<tensor_spec>> specs(step.operands.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (step.operands[i] != program_graph::none)
      specs[i] = inferred.values[step.operands[i]].spec();
  }
  specs[step.outputs.front()] = result;
  program_inference::step written;
  written.descriptor = inferred.steps[number].descriptor;
  written.uses.resize(specs.size());
  try {
    step.operation->infer(specs, {}, written.call, written.uses);
    written.descriptor->check(kind, written.call);
  } catch (const error&) {
    return std::nullopt;
  }
  const auto& before = inferred.steps[number].uses;
  for (std::size_t i = 0; i < written.uses.size(); ++i) {
    if (written.uses[i].packed && !before[i].packed) return std::nullopt;
    written.uses[i].operand.value = nullptr;
  }
  return written;
}

}  // namespace

std::optional<extents> order_of_dimensions(const tensor_layout& view, const tensor_layout& whole) {
  if (view.offset() != whole.offset() || view.type() != whole.type() ||
      view.rank() != whole.rank()) {
    return std::nullopt;
  }
  const auto shape = view.shape();
  const auto strides = view.strides();
  const auto from_shape = whole.shape();
  const auto from_strides = whole.strides();
  extents order;
  unsigned taken = 0;
  for (std::size_t i = 0; i < view.rank(); ++i) {
    // Of equal dimensions the one at the same place, if it is free.
    auto found = view.rank();
    for (std::size_t k = 0; k < whole.rank() && found == view.rank(); ++k) {
      const auto j = (i + k) % whole.rank();
      const bool fits =
          from_shape[j] == shape[i] && (shape[i] == 1 || from_strides[j] == strides[i]);
      if (fits && (taken >> j & 1U) == 0) found = j;
    }
    if (found == view.rank()) return std::nullopt;
    taken |= 1U << found;
    order.push_back(static_cast<std::int64_t>(found));
  }
  return order;
}

std::optional<fused_group> join_permuted_copy(const program_graph& graph,
                                              const program_inference& inferred,
                                              const following_steps& following,
                                              const fusion& groups, std::uint32_t number,
                                              device_kind kind) {
  const auto& step = graph.steps()[number];
  if (!is_step_of<attention>(step) || step.operands[step.outputs.front()] != program_graph::none) {
    return std::nullopt;
  }
  const auto value = first_result_of(graph, number);
  const auto reader = following.only_reader_of(value, groups);
  if (reader == fusion::none || !is_step_of<strided_copy>(graph.steps()[reader]) ||
      !following.may_wait({number}, reader)) {
    return std::nullopt;
  }
  const auto& copying = graph.steps()[reader];
  // A copy into another value has another meaning.
  if (copying.operands[copying.outputs.front()] != program_graph::none) return std::nullopt;
  const auto& whole = inferred.values[value].layout;
  const auto order = order_of_dimensions(inferred.values[copying.operands.front()].layout, whole);
  const auto& copy = inferred.values[first_result_of(graph, reader)];
  if (!order || copy.layout.shape() != inferred.values[copying.operands.front()].layout.shape() ||
      copy.layout.type() != whole.type()) {
    return std::nullopt;
  }
  auto result = copy.spec();
  result.shape = whole.shape();
  for (std::size_t i = 0; i < order->size(); ++i) {
    result.strides[static_cast<std::size_t>((*order)[i])] = copy.layout.strides()[i];
  }
  auto written = written_as(graph, inferred, number, result, kind);
  if (!written) return std::nullopt;
  fused_group group{.steps = {number, reader}};
  group.operation = std::move(*written);
  group.operands = step.operands;
  return group;
}

}  // namespace sluice::operations
