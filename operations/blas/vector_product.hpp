// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/gemm_blocks.hpp"

// Products of a matrix and a vector on the host device. OpenBLAS computes them faster than products
// of matrices, whose factors it reorders first.
namespace sluice::host {

/// Computes a block with one row or one column.
///@{
void multiply_vector(const product<float>& p);
void multiply_vector(const product<double>& p);
///@}

}  // namespace sluice::host
