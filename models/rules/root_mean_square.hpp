// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/optimizer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice::models {

/// A value divided by the root of the mean of its squares, plus epsilon.
struct normalized_value {
  step_graph::number x = 0;
  std::int64_t axis = 0;  ///< the mean is of the elements along it and the dimensions after it
  double epsilon = 0;
  std::vector<std::size_t> steps{};  ///< that compute the root
};

/// x / √(mean(x²) + epsilon) of a step. The root may be a power, and its reciprocal a factor.
[[nodiscard]] std::optional<normalized_value> normalized_by(const optimizer& state,
                                                            std::size_t step);

}  // namespace sluice::models
