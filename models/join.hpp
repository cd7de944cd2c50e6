// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/node.hpp"
#include "models/value.hpp"

#include <cstdint>
#include <vector>

namespace sluice::models {

/// Any number of values one behind the other along a dimension. There is at least one.
[[nodiscard]] value concatenate_values(const node& n, std::vector<value> x, std::int64_t axis);
/// Likewise, as the indices of a new dimension.
[[nodiscard]] value stack_values(const node& n, const std::vector<value>& x, std::int64_t axis);

}  // namespace sluice::models
