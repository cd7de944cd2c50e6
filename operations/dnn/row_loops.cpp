// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/row_loops.hpp"

#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/dnn/row_loops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Elements that are added in f32 before their sum is added in f64.
constexpr std::int64_t sum_block = 256;

/// exp(x) of numbers that are not positive, and of NaN.
template <class D, class V>
HWY_INLINE V exponential(D d, V x) {
  // Below, the result is 0, and the conversion to an integer inside of exp would overflow.
  const auto lowest = hn::Set(d, -104.0F);
  const auto is_small = hn::Lt(x, lowest);
  const auto is_nan = hn::IsNaN(x);
  const auto argument = hn::IfThenElse(hn::Or(is_small, is_nan), lowest, x);
  return hn::IfThenElse(is_nan, x, hn::IfThenZeroElse(is_small, hn::Exp(d, argument)));
}

double exponentials_f32(const float* x, std::int64_t count, float shift, float* y) {
  const hn::ScalableTag<float> d;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  const auto subtracted = hn::Set(d, shift);
  double total = 0;
  std::int64_t i = 0;
  while (i + lanes <= count) {
    auto sums = hn::Zero(d);
    const auto end = std::min(count - lanes, i + sum_block - 1);
    for (; i <= end; i += lanes) {
      const auto power = exponential(d, hn::Sub(hn::LoadU(d, x + i), subtracted));
      if (y != nullptr) hn::StoreU(power, d, y + i);
      sums = hn::Add(sums, power);
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums)));
  }
  const auto rest = static_cast<std::size_t>(count - i);
  if (rest == 0) return total;
  std::array<float, static_cast<std::size_t>(lanes)> last;
  last.fill(shift);
  std::copy_n(x + i, rest, last.begin());
  hn::StoreU(exponential(d, hn::Sub(hn::LoadU(d, last.data()), subtracted)), d, last.data());
  if (y != nullptr) std::copy_n(last.begin(), rest, y + i);
  for (std::size_t k = 0; k < rest; ++k) total += static_cast<double>(last[k]);
  return total;
}

host::deviation_sums deviations_f32(const float* x, std::int64_t count, float shift) {
  const hn::ScalableTag<float> d;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  const auto subtracted = hn::Set(d, shift);
  host::deviation_sums total;
  std::int64_t i = 0;
  while (i + 2 * lanes <= count) {
    auto differences = hn::Zero(d);
    auto other_differences = hn::Zero(d);
    auto squares = hn::Zero(d);
    auto other_squares = hn::Zero(d);
    const auto end = std::min(count - 2 * lanes, i + sum_block - 1);
    for (; i <= end; i += 2 * lanes) {
      const auto a = hn::Sub(hn::LoadU(d, x + i), subtracted);
      const auto b = hn::Sub(hn::LoadU(d, x + i + lanes), subtracted);
      differences = hn::Add(differences, a);
      other_differences = hn::Add(other_differences, b);
      squares = hn::MulAdd(a, a, squares);
      other_squares = hn::MulAdd(b, b, other_squares);
    }
    const auto sum_of = [&](auto one, auto other) {
      return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(one, other))));
    };
    total.differences += sum_of(differences, other_differences);
    total.squares += sum_of(squares, other_squares);
  }
  for (; i < count; ++i) {
    const auto difference = static_cast<double>(x[i]) - static_cast<double>(shift);
    total.differences += difference;
    total.squares += difference * difference;
  }
  return total;
}

template <class Scale, class Bias>
HWY_INLINE void map_row(const host::row_map<float>& map, const float* x, std::int64_t count,
                        float* y, const Scale& scale, const Bias& bias) {
  const float shift = map.shift;
  const float residual = map.residual;
  const float factor = map.factor;
  SLUICE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] = (x[i] - shift - residual) * factor * scale(i) + bias(i);
  }
}
void map_row_f32(const host::row_map<float>& map, const float* x, std::int64_t count, float* y) {
  const auto scale = [scales = map.scale](std::int64_t i) {
    return scales[i];
  };
  const auto bias = [biases = map.bias](std::int64_t i) {
    return biases[i];
  };
  const auto constant_scale = [value = map.constant_scale](std::int64_t) {
    return value;
  };
  const auto constant_bias = [value = map.constant_bias](std::int64_t) {
    return value;
  };
  if (map.scale != nullptr && map.bias != nullptr) return map_row(map, x, count, y, scale, bias);
  if (map.scale != nullptr) return map_row(map, x, count, y, scale, constant_bias);
  if (map.bias != nullptr) return map_row(map, x, count, y, constant_scale, bias);
  map_row(map, x, count, y, constant_scale, constant_bias);
}

void add_f64(const double* x, std::int64_t count, double* y) {
  SLUICE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}
void scale_f64(const double* x, std::int64_t count, double factor, float* y) {
  SLUICE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(x[i] * factor);
}
void every_second_f32(const float* x, std::int64_t count, float* y) {
  SLUICE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[2 * i];
}
void every_second_f64(const double* x, std::int64_t count, double* y) {
  SLUICE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[2 * i];
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(exponentials_f32);
HWY_EXPORT(deviations_f32);
HWY_EXPORT(map_row_f32);
HWY_EXPORT(add_f64);
HWY_EXPORT(scale_f64);
HWY_EXPORT(every_second_f32);
HWY_EXPORT(every_second_f64);
}  // namespace sluice::operations

namespace sluice::host {

using namespace operations;

double exponentials_f32(const float* x, std::int64_t count, float shift, float* y) {
  return HWY_DYNAMIC_DISPATCH(exponentials_f32)(x, count, shift, y);
}
deviation_sums deviations_f32(const float* x, std::int64_t count, float shift) {
  return HWY_DYNAMIC_DISPATCH(deviations_f32)(x, count, shift);
}
void map_row_f32(const row_map<float>& map, const float* x, std::int64_t count, float* y) {
  HWY_DYNAMIC_DISPATCH(map_row_f32)(map, x, count, y);
}
void add_f64(const double* x, std::int64_t count, double* y) {
  HWY_DYNAMIC_DISPATCH(add_f64)(x, count, y);
}
void scale_f64(const double* x, std::int64_t count, double factor, float* y) {
  HWY_DYNAMIC_DISPATCH(scale_f64)(x, count, factor, y);
}
void every_second(const float* x, std::int64_t count, float* y) {
  HWY_DYNAMIC_DISPATCH(every_second_f32)(x, count, y);
}
void every_second(const double* x, std::int64_t count, double* y) {
  HWY_DYNAMIC_DISPATCH(every_second_f64)(x, count, y);
}

}  // namespace sluice::host
#endif
