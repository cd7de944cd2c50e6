// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/conv2d_call.hpp"

namespace sluice::host {

/// Writes the bias, or 0, to each element of a result. `bias` may be null.
void fill_with_bias(const operations::conv2d_output& output, const float* bias, float* y) noexcept;

/// Replaces negative elements of a result by 0. Keeps NaN, which oneDNN's own ReLU turns into 0.
void rectify(const operations::conv2d_output& output, float* y) noexcept;

/// Adds the products of a convolution to y, by its definition. Takes every geometry and needs no
/// memory.
void add_products(const operations::conv2d_key& key, const float* x, const float* w,
                  float* y) noexcept;

}  // namespace sluice::host
