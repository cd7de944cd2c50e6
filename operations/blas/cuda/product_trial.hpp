// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/cuda/fused_product.hpp"

#include <sluice/operations/lane_libraries.hpp>

#include <optional>

namespace sluice::cuda {

/// An algorithm of cuBLASLt for products, with the workspace that NVIDIA recommends. For large
/// products it is the fastest of those that are proposed, if the lane may try algorithms, and
/// remembered for these products. Otherwise it is the one proposed first. Nothing if there is none.
/// @throws error `library_failure`, `device_lost`, `shutting_down`
[[nodiscard]] std::optional<fused_product> find_product(lane_libraries& libraries,
                                                        const operations::fused_key& key,
                                                        const float8_factors& factors = {});

}  // namespace sluice::cuda
