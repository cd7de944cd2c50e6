// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/quantize_call.hpp"

#include <cstdint>

// Loops over elements without gaps, with the largest vectors of the processor. `zero_point` may be
// nullptr, which stands for 0.
namespace sluice::host {

/// y[i] = quantized()(x[i], scale[i], zero_point[i]).
void quantize_f32(const float* x, const float* scale, const float* zero_point, std::int64_t count,
                  float* y);
/// y[i] = quantized_float()(x[i], scale[i], zero_point[i]).
void quantize_float(const float* x, const float* scale, const float* zero_point, std::int64_t count,
                    float* y);
/// y[i] = dequantized()(x[i], scale[i], zero_point[i]).
void dequantize_f32(const float* x, const float* scale, const float* zero_point, std::int64_t count,
                    float* y);

}  // namespace sluice::host
