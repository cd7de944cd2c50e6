// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_call.hpp"

#include <cstdint>

namespace sluice::host {

/// Writes the bias, or 0, to each element of a result. `bias` may be null.
void fill_with_bias(const operations::convolution_output& output, const float* bias,
                    float* y) noexcept;

/// Adds the residual, which may be null, to each element of a result and applies an activation.
/// ReLU keeps NaN, which oneDNN's own turns into 0.
void finish(const operations::convolution_output& output, activation function,
            const float* residual, float* y);
/// Likewise of `count` elements side by side.
void finish(activation function, const float* residual, std::int64_t count, float* y);

/// Adds the products of a convolution to y, by its definition. Takes every geometry and needs no
/// memory.
void add_products(const operations::convolution_shape& key, const float* x, const float* w,
                  float* y) noexcept;

}  // namespace sluice::host
