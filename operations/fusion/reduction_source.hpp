// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/fusion/kernel_source.hpp"

namespace sluice::operations {

/// The kernel that computes a map with a reduction.
[[nodiscard]] kernel_source source_of_reduction(const fused_map& map);

}  // namespace sluice::operations
