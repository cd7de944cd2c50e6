// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/normalize_call.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cstdint>

namespace sluice::host {

/// Whether a call, whose rows lie side by side in x and in y, is computed by
/// `compute_softmax_columns`. The rows are the columns of a matrix.
[[nodiscard]] bool has_softmax_columns(const operations::normalize_call& call) noexcept;

/// Computes a softmax or its logarithm of `count` columns of f32 in the order of memory. `first` is
/// the first one.
void compute_softmax_columns(const operations::normalize_call& call,
                             const operations::normalize_addresses& addresses,
                             const operations::map_position<3>& first, std::int64_t count);

}  // namespace sluice::host
