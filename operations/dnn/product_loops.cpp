// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/product_loops.hpp"

#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/dnn/product_loops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using factor_matrix = host::small_matrix<const float>;
using sum_matrix = host::small_matrix<float>;

/// Adds to `Rows` rows and two vectors of columns, whose sums stay in registers.
template <int Rows>
HWY_INLINE void add_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t b_row,
                         std::int64_t inner, float* c, std::int64_t c_row) {
  const hn::ScalableTag<float> d;
  using vector = hn::Vec<decltype(d)>;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  vector left[Rows];
  vector right[Rows];
  for (int r = 0; r < Rows; ++r) {
    left[r] = hn::LoadU(d, c + r * c_row);
    right[r] = hn::LoadU(d, c + r * c_row + lanes);
  }
  for (std::int64_t i = 0; i < inner; ++i) {
    const auto low = hn::LoadU(d, b + i * b_row);
    const auto high = hn::LoadU(d, b + i * b_row + lanes);
    for (int r = 0; r < Rows; ++r) {
      const auto factor = hn::Set(d, a[r * a_row + i]);
      left[r] = hn::MulAdd(factor, low, left[r]);
      right[r] = hn::MulAdd(factor, high, right[r]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    hn::StoreU(left[r], d, c + r * c_row);
    hn::StoreU(right[r], d, c + r * c_row + lanes);
  }
}

void add_product_f32(const factor_matrix& a, const factor_matrix& b, std::int64_t rows,
                     std::int64_t inner, std::int64_t columns, const sum_matrix& c) {
  constexpr auto width = 2 * static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  static_assert(host::product_columns % width == 0);
  for (std::int64_t j = 0; j < columns; j += width) {
    std::int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
      add_tile<4>(a.first + i * a.row, a.row, b.first + j, b.row, inner, c.first + i * c.row + j,
                  c.row);
    }
    for (; i < rows; ++i) {
      add_tile<1>(a.first + i * a.row, a.row, b.first + j, b.row, inner, c.first + i * c.row + j,
                  c.row);
    }
  }
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(add_product_f32);
}  // namespace sluice::operations

namespace sluice::host {

void add_product_f32(const small_matrix<const float>& a, const small_matrix<const float>& b,
                     std::int64_t rows, std::int64_t inner, std::int64_t columns,
                     const small_matrix<float>& c) {
  using namespace operations;
  HWY_DYNAMIC_DISPATCH(add_product_f32)(a, b, rows, inner, columns, c);
}

}  // namespace sluice::host
#endif
