// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/pool_call.hpp"

#include <sluice/operations/inference.hpp>
#include <sluice/operations/pool.hpp>

#include <array>
#include <cstddef>

namespace sluice::operations {

/// The spatial dimensions of a pool, in the order of x.
struct pool_axes {
  std::array<pool_axis, pool_call::max_axes> all{};
  std::size_t count = 0;
};

/// The windows that the parameters of `op` state over `x`, an operand of the inference, without
/// their strides in memory.
/// @throws error `invalid_argument` if a parameter or x is none that `pool` takes
[[nodiscard]] pool_axes pool_windows(const pool& op, const inference& inference, const operand& x);

}  // namespace sluice::operations
