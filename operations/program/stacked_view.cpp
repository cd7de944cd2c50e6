// SPDX-License-Identifier: Apache-2.0
#include "operations/program/stacked_view.hpp"

#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>

#include <vector>

namespace sluice::operations {
namespace {

using view_function = std::function<tensor_layout(const tensor_layout&)>;

/// The views of all runs; none if one of them cannot be had.
std::vector<tensor_layout> views_of(const view_function& view, const tensor_layout& source,
                                    std::size_t axis, std::int64_t count) {
  std::vector<tensor_layout> parts;
  if (source.shape()[axis] % count != 0) return parts;
  const auto extent = source.shape()[axis] / count;
  try {
    for (std::int64_t run = 0; run < count; ++run) {
      parts.push_back(view(source.slice(axis, run * extent, (run + 1) * extent)));
    }
  } catch (const error&) {
    parts.clear();
  }
  return parts;
}

bool has_parts_along(const tensor_layout& result, std::size_t axis,
                     const std::vector<tensor_layout>& parts) {
  const auto extent = parts.front().shape()[axis];
  if (result.shape()[axis] != extent * static_cast<std::int64_t>(parts.size())) return false;
  for (std::size_t run = 0; run < parts.size(); ++run) {
    const auto first = static_cast<std::int64_t>(run) * extent;
    if (result.slice(axis, first, first + extent) != parts[run]) return false;
  }
  return true;
}

std::optional<std::size_t> axis_of_parts(const tensor_layout& result,
                                         const std::vector<tensor_layout>& parts) {
  if (parts.empty() || parts.front().empty() || result.type() != parts.front().type() ||
      result.rank() != parts.front().rank()) {
    return std::nullopt;
  }
  for (std::size_t axis = 0; axis < result.rank(); ++axis) {
    if (has_parts_along(result, axis, parts)) return axis;
  }
  return std::nullopt;
}

/// The parts as one layout, one behind the other along `axis`; nothing if they do not lie so.
std::optional<tensor_layout> joined(const std::vector<tensor_layout>& parts, std::size_t axis) {
  const auto& first = parts.front();
  if (parts[1].offset() <= first.offset()) return std::nullopt;
  const auto size = size_of(first.type());
  const auto bytes = parts[1].offset() - first.offset();
  if (bytes % size != 0) return std::nullopt;
  const auto distance = static_cast<std::int64_t>(bytes / size);
  auto shape = first.shape();
  auto strides = first.strides();
  if (shape[axis] == 1) {
    strides[axis] = distance;
  } else if (distance % shape[axis] != 0 || strides[axis] != distance / shape[axis]) {
    return std::nullopt;
  }
  shape[axis] *= static_cast<std::int64_t>(parts.size());
  tensor_layout whole(first.type(), shape, strides, first.offset());
  if (!has_parts_along(whole, axis, parts)) return std::nullopt;
  return whole;
}

/// Likewise along any axis. The one with the number that the runs have in the source is preferred,
/// then one that has one index in each run.
stacked_view join(const std::vector<tensor_layout>& parts, std::size_t source_axis) {
  if (parts.size() < 2 || parts.front().empty()) return {};
  const auto& shape = parts.front().shape();
  std::vector<std::size_t> order;
  if (source_axis < shape.size()) order.push_back(source_axis);
  for (const bool is_one : {true, false}) {
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if ((shape[axis] == 1) == is_one) order.push_back(axis);
    }
  }
  for (const auto axis : order) {
    if (auto layout = joined(parts, axis)) return {*layout, axis};
  }
  return {};
}

}  // namespace

std::optional<std::size_t> axis_of_views(const view_function& view, const tensor_layout& source,
                                         std::size_t source_axis, std::int64_t count,
                                         const tensor_layout& result) {
  return axis_of_parts(result, views_of(view, source, source_axis, count));
}

stacked_view view_of_runs(const view_function& view, const tensor_layout& source,
                          std::size_t source_axis, std::int64_t count) {
  const auto parts = views_of(view, source, source_axis, count);
  const auto joined_parts = [&] {
    return join(parts, source_axis);
  };
  tensor_layout whole;
  try {
    whole = view(source);
  } catch (const error&) {
    if (auto result = joined_parts(); result.axis) return result;
    throw;
  }
  if (const auto axis = axis_of_parts(whole, parts)) return {whole, axis};
  if (auto result = joined_parts(); result.axis) return result;
  return {whole, std::nullopt};
}

}  // namespace sluice::operations
