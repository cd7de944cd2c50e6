// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"

namespace sluice::operations {

/// What an executable costs on devices of a kind: the plans of its actions, and a little for each
/// step. An action computes a step, or a product or convolution with the steps of its epilogue.
[[nodiscard]] plan_price price_of_plans(const detail::program_graph& graph,
                                        const program_inference& inferred, device_kind kind);

}  // namespace sluice::operations
