// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/inference.hpp>

#include <span>

namespace sluice::operations {

/// Checks that no output shares bytes with another operand, unless the operation allows it.
/// @throws error `invalid_argument` with the name of the output
void check_aliasing(std::span<const inference::use> uses);

}  // namespace sluice::operations
