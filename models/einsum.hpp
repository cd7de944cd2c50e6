// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/node.hpp"
#include "models/value.hpp"

#include <string>
#include <vector>

namespace sluice::models {

/// The sum of products of elements that `equation` describes, as Einsum of ONNX and NumPy have it.
/// @throws error `invalid_argument` if the equation is not valid or does not fit the operands
[[nodiscard]] value sum_products(const node& n, const std::string& equation,
                                 const std::vector<value>& operands);

}  // namespace sluice::models
