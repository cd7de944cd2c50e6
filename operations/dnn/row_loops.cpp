// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/row_loops.hpp"

#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/dnn/row_loops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "operations/elementwise/exponential-inl.hpp"
#include "operations/elementwise/f32_arithmetic-inl.hpp"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Elements that are added in f32 before their sum is added in f64. Few for all sizes of vectors,
/// so that sums of large numbers do not overflow.
constexpr std::int64_t sum_block = std::max<std::int64_t>(tile_size, 256);

/// Brings elements of the next row near, at the place of a tile, while this row is computed: those
/// of x to read and those of y to write. It may be beyond the end of memory, which is no error.
///@{
template <int Locality>
HWY_INLINE void fetch_source(const float* x) {
  constexpr std::int64_t line = 64 / sizeof(float);
  for (std::int64_t k = 0; k < tile_size; k += line) __builtin_prefetch(x + k, 0, Locality);
}
template <int Locality>
HWY_INLINE void fetch_target(const float* y) {
  constexpr std::int64_t line = 64 / sizeof(float);
  for (std::int64_t k = 0; k < tile_size; k += line) __builtin_prefetch(y + k, 1, Locality);
}
///@}
HWY_INLINE double sum_of(const tile& sums) {
  const auto sum = hn::Add(hn::Add(sums.v0, sums.v1), hn::Add(sums.v2, sums.v3));
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(floats(), sum)));
}
HWY_INLINE tile add_tiles(const tile& x, const tile& y) {
  return map_tiles([](auto a, auto b) { return hn::Add(a, b); }, x, y);
}

template <bool IsStored>
HWY_INLINE double exponentials(const float* x, std::int64_t count, float shift,
                               [[maybe_unused]] float* y) {
  const floats d;
  const auto subtracted = hn::Set(d, shift);
  const auto power = [&](auto v) {
    return exponential_below_one(d, hn::Sub(v, subtracted));
  };
  double total = 0;
  std::int64_t i = 0;
  while (i + tile_size <= count) {
    auto sums = repeated(0);
    const auto end = std::min(count - tile_size, i + sum_block - 1);
    for (; i <= end; i += tile_size) {
      fetch_source<IsStored ? 3 : 2>(x + i + count);
      if constexpr (IsStored) fetch_target<3>(y + i + count);
      const auto powers = map_tile(power, load_tile(x + i));
      if constexpr (IsStored) store_tile(powers, y + i);
      sums = add_tiles(sums, powers);
    }
    total += sum_of(sums);
  }
  std::array<float, static_cast<std::size_t>(float_lanes)> last;
  for (; i < count; i += float_lanes) {
    const auto rest = static_cast<std::size_t>(std::min(count - i, float_lanes));
    last.fill(shift);
    std::copy_n(x + i, rest, last.begin());
    hn::StoreU(power(hn::LoadU(d, last.data())), d, last.data());
    if constexpr (IsStored) std::copy_n(last.begin(), rest, y + i);
    for (std::size_t k = 0; k < rest; ++k) total += static_cast<double>(last[k]);
  }
  return total;
}
double exponentials_f32(const float* x, std::int64_t count, float shift, float* y) {
  return y != nullptr ? exponentials<true>(x, count, shift, y)
                      : exponentials<false>(x, count, shift, y);
}

float largest_number_f32(const float* x, std::int64_t count) {
  const floats d;
  auto all = repeated(-HUGE_VALF);
  std::int64_t i = 0;
  for (; i + tile_size <= count; i += tile_size) {
    all = map_tiles([](auto a, auto b) { return hn::Max(a, b); }, load_tile(x + i), all);
  }
  // `MaxOfLanes` of EMU128 takes no number for smaller than the least finite one.
  std::array<float, hn::MaxLanes(floats())> lanes;
  hn::StoreU(hn::Max(hn::Max(all.v0, all.v1), hn::Max(all.v2, all.v3)), d, lanes.data());
  float result = -HUGE_VALF;
  for (std::size_t k = 0; k < hn::Lanes(d); ++k) result = lanes[k] > result ? lanes[k] : result;
  for (; i < count; ++i) result = x[i] > result ? x[i] : result;
  return result;
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
      const auto power =
          exponential_below_one(d, hn::Sub(load_some(d, x + k * x_distance + i, last), shift));
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
  const auto subtracted = hn::Set(floats(), shift);
  const auto subtract = [&](auto v) {
    return hn::Sub(v, subtracted);
  };
  host::deviation_sums total;
  const auto add_in_f64 = [&](std::int64_t first, std::int64_t last) {
    for (auto k = first; k < last; ++k) {
      const auto difference = static_cast<double>(x[k]) - static_cast<double>(shift);
      total.differences += difference;
      total.squares += difference * difference;
    }
  };
  std::int64_t i = 0;
  while (i + tile_size <= count) {
    auto differences = repeated(0);
    auto squares = repeated(0);
    const auto first = i;
    const auto end = std::min(count - tile_size, i + sum_block - 1);
    for (; i <= end; i += tile_size) {
      const auto terms = map_tile(subtract, load_tile(x + i));
      differences = add_tiles(differences, terms);
      squares.v0 = hn::MulAdd(terms.v0, terms.v0, squares.v0);
      squares.v1 = hn::MulAdd(terms.v1, terms.v1, squares.v1);
      squares.v2 = hn::MulAdd(terms.v2, terms.v2, squares.v2);
      squares.v3 = hn::MulAdd(terms.v3, terms.v3, squares.v3);
    }
    const double sum_of_squares = sum_of(squares);
    if (sum_of_squares <= std::numeric_limits<float>::max()) {
      total.differences += sum_of(differences);
      total.squares += sum_of_squares;
    } else {
      add_in_f64(first, i);  // a sum in f32 is infinite
    }
  }
  add_in_f64(i, count);
  return total;
}

template <bool HasScale, bool HasBias, bool IsStreamed>
HWY_INLINE void map_row(const host::row_map<float>& map, const float* x, std::int64_t count,
                        float* y) {
  const floats d;
  const auto shift = hn::Set(d, map.shift);
  const auto residual = hn::Set(d, map.residual);
  const auto factor = hn::Set(d, map.factor);
  const auto normalize = [&](auto v) {
    return hn::Mul(hn::Sub(hn::Sub(v, shift), residual), factor);
  };
  const auto constant_scale = repeated(map.constant_scale);
  const auto constant_bias = repeated(map.constant_bias);
  std::int64_t i = 0;
  for (; i + tile_size <= count; i += tile_size) {
    const auto numbers = map_tile(normalize, load_tile(x + i));
    const auto scale = HasScale ? load_tile(map.scale + i) : constant_scale;
    const auto bias = HasBias ? load_tile(map.bias + i) : constant_bias;
    const tile results{
        hn::MulAdd(numbers.v0, scale.v0, bias.v0), hn::MulAdd(numbers.v1, scale.v1, bias.v1),
        hn::MulAdd(numbers.v2, scale.v2, bias.v2), hn::MulAdd(numbers.v3, scale.v3, bias.v3)};
    if constexpr (IsStreamed) {
      stream_tile(results, y + i);
    } else {
      store_tile(results, y + i);
    }
  }
  for (; i < count; ++i) {
    const float scale = HasScale ? map.scale[i] : map.constant_scale;
    const float bias = HasBias ? map.bias[i] : map.constant_bias;
    y[i] = (x[i] - map.shift - map.residual) * map.factor * scale + bias;
  }
}
template <bool IsStreamed>
HWY_INLINE void map_row(const host::row_map<float>& map, const float* x, std::int64_t count,
                        float* y) {
  if (map.scale != nullptr) {
    map.bias != nullptr ? map_row<true, true, IsStreamed>(map, x, count, y)
                        : map_row<true, false, IsStreamed>(map, x, count, y);
  } else {
    map.bias != nullptr ? map_row<false, true, IsStreamed>(map, x, count, y)
                        : map_row<false, false, IsStreamed>(map, x, count, y);
  }
}
/// Products without a sum, which would make -0 to +0.
template <bool IsStreamed>
HWY_INLINE void multiply_row(const float* x, std::int64_t count, float factor, float* y) {
  std::int64_t i = 0;
  if constexpr (IsStreamed) {
    const auto factors = hn::Set(floats(), factor);
    const auto multiply = [&](auto v) {
      return hn::Mul(v, factors);
    };
    for (; i + tile_size <= count; i += tile_size) {
      stream_tile(map_tile(multiply, load_tile(x + i)), y + i);
    }
  }
  SLUICE_INDEPENDENT
  for (; i < count; ++i) y[i] = x[i] * factor;
}
void map_row_f32(const host::row_map<float>& map, const float* x, std::int64_t count, float* y) {
  const bool is_streamed = map.is_streamed && is_stream_address(y);
  if (map.only_multiplies()) {
    is_streamed ? multiply_row<true>(x, count, map.factor, y)
                : multiply_row<false>(x, count, map.factor, y);
  } else if (is_streamed) {
    map_row<true>(map, x, count, y);
  } else {
    map_row<false>(map, x, count, y);
  }
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
HWY_EXPORT(largest_number_f32);
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
float largest_number_f32(const float* x, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(largest_number_f32)(x, count);
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
