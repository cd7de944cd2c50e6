// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_graph.hpp"
#include "operations/program/program_inference.hpp"

#include <sluice/operations.hpp>
#include <sluice/runtime/tensor_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::test {

using run_axes_of_inputs = std::vector<std::optional<std::size_t>>;

/// A program whose inputs are those of `count` runs of `what`, one behind the other along `axes`,
/// with the steps and views of a batch. It runs on any device, and only batches of a GPU are this
/// program otherwise.
/// @throws error what a step refuses for so many runs
inline program stacked_program(const program& what, std::span<const tensor_spec> inputs,
                               const run_axes_of_inputs& axes, std::int64_t count) {
  program_builder p;
  std::vector<operand> copies;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    copies.emplace_back(p.input("input " + std::to_string(i)));
  }
  auto stacked = std::move(p).build(p.add("runs", what, copies));
  const auto& graph = *stacked.graph();
  std::vector<tensor_spec> all(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!axes[i]) continue;
    all[i].shape[*axes[i]] *= count;
    all[i] = tensor_spec::row_major(all[i].type, all[i].shape);
  }
  const std::vector<operations::given_output> outputs(graph.outputs().size());
  const auto alone = operations::infer_program(graph, inputs, {}, outputs);
  const operations::run_stack runs{alone, count, axes};
  const auto inferred = operations::infer_program(graph, all, {}, outputs, &runs);
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    auto& value = const_cast<detail::program_graph::value&>(graph.values()[i]);
    if (value.kind != detail::program_graph::value_kind::view) continue;
    value.view = [layout = inferred.values[i].layout](const tensor_layout&) {
      return layout;
    };
  }
  return stacked;
}

/// The number of elements in front of an axis, and the bytes of one of them.
struct axis_rows {
  std::size_t count = 1;
  std::size_t bytes = 1;
  axis_rows(const host_tensor& x, std::size_t axis) {
    for (std::size_t d = 0; d < axis; ++d) count *= static_cast<std::size_t>(x.shape()[d]);
    bytes = x.bytes() / count;
  }
};
/// Tensors of one shape, one behind the other along an axis.
inline host_tensor joined_along(std::size_t axis, const std::vector<host_tensor>& parts) {
  auto shape = parts.front().shape();
  shape[axis] *= static_cast<std::int64_t>(parts.size());
  host_tensor all(parts.front().type(), shape);
  const axis_rows rows(parts.front(), axis);
  auto* target = static_cast<std::byte*>(all.data().get());
  for (std::size_t row = 0; row < rows.count; ++row) {
    for (const auto& part : parts) {
      const auto* source = static_cast<const std::byte*>(part.data().get());
      std::memcpy(target, source + row * rows.bytes, rows.bytes);
      target += rows.bytes;
    }
  }
  return all;
}
/// The part of run `number` of `count`.
inline host_tensor part_along(std::size_t axis, const host_tensor& all, std::size_t number,
                              std::size_t count) {
  auto shape = all.shape();
  shape[axis] /= static_cast<std::int64_t>(count);
  host_tensor part(all.type(), shape);
  const axis_rows rows(part, axis);
  auto* target = static_cast<std::byte*>(part.data().get());
  const auto* source = static_cast<const std::byte*>(all.data().get());
  for (std::size_t row = 0; row < rows.count; ++row) {
    std::memcpy(target + row * rows.bytes, source + (row * count + number) * rows.bytes,
                rows.bytes);
  }
  return part;
}

}  // namespace sluice::test
