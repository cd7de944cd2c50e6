// SPDX-License-Identifier: Apache-2.0
#include "models/rules/reduced_axes.hpp"

#include <algorithm>

namespace sluice::models {

std::optional<std::int64_t> first_axis(const reduce& operation, std::size_t rank) {
  if (!operation.keep_dims || rank == 0) return {};
  if (!operation.axes) return 0;
  const auto dimensions = static_cast<std::int64_t>(rank);
  auto first = dimensions;
  for (const auto axis : *operation.axes) {
    first = std::min(first, axis < 0 ? axis + dimensions : axis);
  }
  const auto count = static_cast<std::int64_t>(operation.axes->size());
  return count != 0 && first == dimensions - count ? std::optional(first) : std::nullopt;
}

std::optional<std::int64_t> only_axis(const reduce& operation, std::size_t rank) {
  if (!operation.keep_dims || rank == 0) return {};
  if (!operation.axes) return rank == 1 ? std::optional<std::int64_t>(0) : std::nullopt;
  if (operation.axes->size() != 1) return {};
  const auto axis = (*operation.axes)[0];
  return axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
}

}  // namespace sluice::models
