// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/quantize_loops.hpp"

#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/elementwise/quantize_loops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class Function>
void quantize_with(const Function& function, const float* x, const float* scale,
                   const float* zero_point, std::int64_t count, float* y) {
  const hn::ScalableTag<float> d;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  const float missing = function.missing(2);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto quotient = hn::Div(hn::LoadU(d, x + i), hn::LoadU(d, scale + i));
    if constexpr (std::is_same_v<Function, quantized>) quotient = hn::Round(quotient);
    const auto zero = zero_point != nullptr ? hn::LoadU(d, zero_point + i) : hn::Set(d, missing);
    hn::StoreU(hn::Add(quotient, zero), d, y + i);
  }
  for (; i < count; ++i) {
    y[i] = function(x[i], scale[i], zero_point != nullptr ? zero_point[i] : missing);
  }
}

void quantize_f32(const float* x, const float* scale, const float* zero_point, std::int64_t count,
                  float* y) {
  quantize_with(quantized(), x, scale, zero_point, count, y);
}

void quantize_float(const float* x, const float* scale, const float* zero_point, std::int64_t count,
                    float* y) {
  quantize_with(quantized_float(), x, scale, zero_point, count, y);
}

void dequantize_f32(const float* x, const float* scale, const float* zero_point, std::int64_t count,
                    float* y) {
  const hn::ScalableTag<float> d;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto zero = zero_point != nullptr ? hn::LoadU(d, zero_point + i) : hn::Zero(d);
    const auto difference = hn::Sub(hn::LoadU(d, x + i), zero);
    hn::StoreU(hn::Mul(difference, hn::LoadU(d, scale + i)), d, y + i);
  }
  for (; i < count; ++i) {
    y[i] = dequantized()(x[i], scale[i], zero_point != nullptr ? zero_point[i] : 0);
  }
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(quantize_f32);
HWY_EXPORT(quantize_float);
HWY_EXPORT(dequantize_f32);
}  // namespace sluice::operations

namespace sluice::host {

using namespace operations;

void quantize_f32(const float* x, const float* scale, const float* zero_point, std::int64_t count,
                  float* y) {
  HWY_DYNAMIC_DISPATCH(quantize_f32)(x, scale, zero_point, count, y);
}
void quantize_float(const float* x, const float* scale, const float* zero_point, std::int64_t count,
                    float* y) {
  HWY_DYNAMIC_DISPATCH(quantize_float)(x, scale, zero_point, count, y);
}
void dequantize_f32(const float* x, const float* scale, const float* zero_point, std::int64_t count,
                    float* y) {
  HWY_DYNAMIC_DISPATCH(dequantize_f32)(x, scale, zero_point, count, y);
}

}  // namespace sluice::host
#endif
