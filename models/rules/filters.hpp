// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/optimizer.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace sluice::models {

/// The number of channels of the result of a convolution whose filters and bias are constants, and
/// which no step but `step` reads; nothing if `value` is none.
[[nodiscard]] std::optional<std::size_t> channels_of_convolution(const optimizer& state,
                                                                 step_graph::number value,
                                                                 std::size_t step);
/// Lets `step` compute this convolution with its results times a factor, plus a summand, for each
/// channel. The filters and the bias are computed in f64 and rounded once.
[[nodiscard]] bool scale_convolution(optimizer& state, step_graph::number value, std::size_t step,
                                     const std::vector<double>& factors,
                                     const std::vector<double>& summands);
/// The numbers of a constant with one number for each channel, or one for all, that is added to or
/// multiplied with a value of `rank` dimensions.
[[nodiscard]] std::optional<std::vector<double>> channel_numbers(const optimizer& state,
                                                                 const operand_or_number& x,
                                                                 std::size_t channels,
                                                                 std::size_t rank);

}  // namespace sluice::models
