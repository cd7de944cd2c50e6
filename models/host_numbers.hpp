// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/host_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::models {

/// The elements of a tensor of integers or booleans.
/// @throws error `invalid_argument` if they are of another type, or out of the range of i64
[[nodiscard]] std::vector<std::int64_t> integers_in(const host_tensor& x);
/// The elements of a tensor of real numbers, integers or booleans.
/// @throws error `invalid_argument` if they are complex
///@{
[[nodiscard]] std::vector<double> reals_in(const host_tensor& x);
/// Those of `count` elements, beginning with `first`.
[[nodiscard]] std::vector<double> reals_in(const host_tensor& x, std::size_t first,
                                           std::size_t count);
///@}
/// A number in this type, without dimensions.
/// @throws error `unsupported` if the type is complex
[[nodiscard]] host_tensor number_of_type(element_type type, double number);

}  // namespace sluice::models
