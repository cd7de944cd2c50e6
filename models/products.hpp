// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/node.hpp"
#include "models/value.hpp"

namespace sluice::models {

/// The product of matrices or stacks of them, of a type of `gemm`, or of any other type as sums of
/// products of elements.
[[nodiscard]] value multiply_matrices(const node& n, const value& a, const value& b);

/// The product of matrices of bytes without their zero points, as i32. `a_zero` is one number or
/// one for each row, `b_zero` one or one for each column; both may be left out.
[[nodiscard]] value multiply_bytes(const node& n, const value& a, const value& b,
                                   const value* a_zero, const value* b_zero);

/// A parameter of a quantized matrix as a factor: one number, or one for each row or column.
[[nodiscard]] value along_rows(const value& parameter);
[[nodiscard]] value along_columns(const value& parameter);

}  // namespace sluice::models
