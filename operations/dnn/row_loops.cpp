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
#include <cstddef>
#include <type_traits>

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

/// The first `count` numbers at `x`, at most those of a vector, and zeros.
template <class D>
HWY_INLINE hn::Vec<D> load_some(D d, const float* x, std::int64_t count) {
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  if (count == lanes) return hn::LoadU(d, x);
  std::array<float, static_cast<std::size_t>(lanes)> numbers{};
  std::copy_n(x, count, numbers.begin());
  return hn::LoadU(d, numbers.data());
}
/// y[i] = lane i of a vector, for all i from `first` to below `last`.
template <class D>
HWY_INLINE void store_lanes(D d, hn::Vec<D> v, std::int64_t first, std::int64_t last, float* y) {
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  if (last - first == lanes) return hn::StoreU(v, d, y);
  std::array<float, static_cast<std::size_t>(lanes)> numbers;
  hn::StoreU(v, d, numbers.data());
  std::copy_n(numbers.begin() + first, last - first, y + first);
}
/// sums[i] += lane i of a vector, likewise.
template <class D>
HWY_INLINE void add_lanes(D d, hn::Vec<D> v, std::int64_t first, std::int64_t last, double* sums) {
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  std::array<float, static_cast<std::size_t>(lanes)> numbers;
  hn::StoreU(v, d, numbers.data());
  if (last - first != lanes) {
    for (auto i = first; i < last; ++i) {
      sums[i] += static_cast<double>(numbers[static_cast<std::size_t>(i)]);
    }
    return;
  }
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  constexpr auto wide_lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<double>()));
  for (std::int64_t i = 0; i < lanes; i += wide_lanes) {
    const auto terms = hn::PromoteTo(wide, hn::LoadU(narrow, numbers.data() + i));
    hn::StoreU(hn::Add(hn::LoadU(wide, sums + i), terms), wide, sums + i);
  }
}

/// Adds `Rows` rows in f32, then their sum in f64.
template <int Rows>
HWY_INLINE void add_exponentials(const float* x, std::int64_t x_distance, std::int64_t count,
                                 const float* shifts, float* y, std::int64_t y_distance,
                                 double* sums) {
  const hn::ScalableTag<float> d;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  // Of the columns from `i` on, those from `first` to before `last`, the end of a vector or of all.
  const auto add = [&](std::int64_t i, auto first, auto last) {
    const auto shift = load_some(d, shifts + i, last);
    auto sum = hn::Zero(d);
    for (int k = 0; k < Rows; ++k) {
      const auto power = exponential(d, hn::Sub(load_some(d, x + k * x_distance + i, last), shift));
      if (y != nullptr) store_lanes(d, power, first, last, y + k * y_distance + i);
      sum = hn::Add(sum, power);
    }
    add_lanes(d, sum, first, last, sums + i);
  };
  constexpr std::int64_t none = 0;
  if (count < lanes) return add(0, none, count);
  // Before the other columns, because y may be x.
  const auto rest = count % lanes;
  if (rest != 0) add(count - lanes, lanes - rest, lanes);
  for (std::int64_t i = 0; i + lanes <= count; i += lanes) {
    add(i, std::integral_constant<std::int64_t, none>(),
        std::integral_constant<std::int64_t, lanes>());
  }
}
void exponentials_of_columns_f32(const host::f32_rows& x, std::int64_t count, const float* shifts,
                                 float* y, std::int64_t distance, double* sums) {
  const auto target = [&](std::int64_t row) {
    return y == nullptr ? nullptr : y + row * distance;
  };
  constexpr int group = 4;
  std::int64_t row = 0;
  for (; row + group <= x.rows; row += group) {
    add_exponentials<group>(x.x + row * x.distance, x.distance, count, shifts, target(row),
                            distance, sums);
  }
  for (; row < x.rows; ++row) {
    add_exponentials<1>(x.x + row * x.distance, x.distance, count, shifts, target(row), distance,
                        sums);
  }
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
HWY_EXPORT(exponentials_of_columns_f32);
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
void exponentials_of_columns_f32(const f32_rows& x, std::int64_t count, const float* shifts,
                                 float* y, std::int64_t distance, double* sums) {
  HWY_DYNAMIC_DISPATCH(exponentials_of_columns_f32)(x, count, shifts, y, distance, sums);
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
