// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/normalize_call.hpp"
#include "operations/elementwise/host_loop.hpp"

namespace sluice::host {

/// The cost of a row, by which `for_each_part` divides the rows of a normalization.
[[nodiscard]] map_cost cost_of_rows(const operations::normalize_call& call) noexcept;

}  // namespace sluice::host
