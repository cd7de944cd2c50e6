// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/resize_rows.hpp"

#include "operations/elementwise/storage.hpp"
#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/elementwise/resize_rows.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using host::resize_columns;
using host::resize_source;

/// A neighbour of weight 0 has no influence, whatever it is.
HWY_INLINE float between(float a, float b, float weight) {
  return weight == 0 ? a : a * (1.0F - weight) + b * weight;
}

template <class T>
HWY_INLINE void scalar_column(const resize_source<T>& source, const resize_columns& columns,
                              std::int64_t column, T* y) {
  const auto index = static_cast<std::size_t>(column);
  const auto first = columns.first[index];
  const auto second = columns.second[index];
  const float weight = columns.weight[index];
  for (std::int64_t c = 0; c < source.channels; ++c) {
    const float upper = between(static_cast<float>(source.upper[first + c]),
                                static_cast<float>(source.upper[second + c]), weight);
    const float lower = between(static_cast<float>(source.lower[first + c]),
                                static_cast<float>(source.lower[second + c]), weight);
    const float value = between(upper, lower, source.weight);
    if constexpr (std::is_same_v<T, float>) {
      y[c] = value;
    } else {
      y[c] = to_integer<T, overflow::saturates>(std::rint(value));
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
using four = hn::FixedTag<float, 4>;

HWY_INLINE hn::Vec<four> load_four(const float* x) {
  return hn::LoadU(four(), x);
}
HWY_INLINE hn::Vec<four> load_four(const std::uint8_t* x) {
  const hn::FixedTag<std::uint8_t, 4> bytes;
  const hn::FixedTag<std::int32_t, 4> integers;
  return hn::ConvertTo(four(), hn::PromoteTo(integers, hn::LoadU(bytes, x)));
}
HWY_INLINE void store_four(hn::Vec<four> value, float* y) {
  hn::StoreU(value, four(), y);
}
HWY_INLINE void store_four(hn::Vec<four> value, std::uint8_t* y) {
  const hn::FixedTag<std::uint8_t, 4> bytes;
  hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(value)), bytes, y);
}
HWY_INLINE hn::Vec<four> between(hn::Vec<four> a, hn::Vec<four> b, float weight) {
  const four d;
  return hn::Add(hn::Mul(a, hn::Set(d, 1.0F - weight)), hn::Mul(b, hn::Set(d, weight)));
}

/// Three or four channels, in vectors of four elements. With three, a vector reaches into the next
/// column, which must exist in the image and be computed later in the result.
template <class T>
HWY_INLINE void vector_column(const resize_source<T>& source, const resize_columns& columns,
                              std::int64_t column, T* y) {
  const auto index = static_cast<std::size_t>(column);
  const auto first = columns.first[index];
  const auto second = columns.second[index];
  const float weight = columns.weight[index];
  auto value = load_four(source.upper + first);
  if (weight != 0) value = between(value, load_four(source.upper + second), weight);
  if (source.weight != 0) {
    auto lower = load_four(source.lower + first);
    if (weight != 0) lower = between(lower, load_four(source.lower + second), weight);
    value = between(value, lower, source.weight);
  }
  store_four(value, y);
}
#endif

template <class T>
HWY_INLINE void any_row(const resize_source<T>& source, const resize_columns& columns, T* y,
                        std::int64_t stride) {
  std::int64_t column = 0;
#if HWY_TARGET != HWY_SCALAR
  const bool is_three = source.channels == 3 && stride == 3 && source.column_stride == 3;
  if (is_three || source.channels == 4) {
    auto end = columns.count;
    if (is_three) {
      --end;
      while (end > 0 && columns.second[static_cast<std::size_t>(end - 1)] >= columns.last) --end;
    }
    for (; column < end; ++column) vector_column(source, columns, column, y + column * stride);
  }
#endif
  for (; column < columns.count; ++column) {
    scalar_column(source, columns, column, y + column * stride);
  }
}

void resize_u8(const resize_source<std::uint8_t>& source, const resize_columns& columns,
               std::uint8_t* y, std::int64_t stride) {
  any_row(source, columns, y, stride);
}
void resize_f32(const resize_source<float>& source, const resize_columns& columns, float* y,
                std::int64_t stride) {
  any_row(source, columns, y, stride);
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(resize_u8);
HWY_EXPORT(resize_f32);
}  // namespace sluice::operations

namespace sluice::host {

using namespace operations;

template <>
void resize_row(const resize_source<std::uint8_t>& source, const resize_columns& columns,
                std::uint8_t* y, std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(resize_u8)(source, columns, y, stride);
}
template <>
void resize_row(const resize_source<float>& source, const resize_columns& columns, float* y,
                std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(resize_f32)(source, columns, y, stride);
}

}  // namespace sluice::host
#endif
