// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/inference.hpp>
#include <sluice/operations/launch_descriptor.hpp>

#include <span>
#include <string_view>

namespace sluice::models {

/// The arithmetic operations of a step, as `model_cost` counts them. `operation` is its name.
[[nodiscard]] double arithmetic_of(std::string_view operation, const launch_facts& facts,
                                   std::span<const inference::use> uses);

}  // namespace sluice::models
