// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/conv2d_call.hpp"

namespace sluice::host {

/// Writes the bias, or 0, to each element of a result. `bias` may be null.
void fill_with_bias(const operations::conv2d_output& output, const float* bias, float* y) noexcept;

/// Applies an activation to each element of a result. ReLU keeps NaN, which oneDNN's own turns into
/// 0.
void activate(const operations::conv2d_output& output, activation function, float* y);

/// Adds the products of a convolution to y, by its definition. Takes every geometry and needs no
/// memory.
void add_products(const operations::conv2d_key& key, const float* x, const float* w,
                  float* y) noexcept;

}  // namespace sluice::host
