// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/product_loops.hpp"

#include "operations/vector_targets.hpp"

#include <algorithm>

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

constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));

/// Adds to `Rows` rows and `Vectors` vectors of columns, whose sums stay in registers.
template <int Rows, int Vectors>
HWY_INLINE void add_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t b_row,
                         std::int64_t inner, float* c, std::int64_t c_row) {
  const hn::ScalableTag<float> d;
  using vector = hn::Vec<decltype(d)>;
  vector sums[Rows][Vectors];
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) sums[r][v] = hn::LoadU(d, c + r * c_row + v * lanes);
  }
  for (std::int64_t i = 0; i < inner; ++i) {
    vector columns[Vectors];
    for (int v = 0; v < Vectors; ++v) columns[v] = hn::LoadU(d, b + i * b_row + v * lanes);
    for (int r = 0; r < Rows; ++r) {
      const auto factor = hn::Set(d, a[r * a_row + i]);
      for (int v = 0; v < Vectors; ++v) sums[r][v] = hn::MulAdd(factor, columns[v], sums[r][v]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) hn::StoreU(sums[r][v], d, c + r * c_row + v * lanes);
  }
}

/// Adds to the rows [row, rows), `Rows` at a time. Returns the first of those that are left.
template <int Rows, int Vectors>
HWY_INLINE std::int64_t add_rows(const factor_matrix& a, const factor_matrix& b, std::int64_t row,
                                 std::int64_t rows, std::int64_t inner, std::int64_t columns,
                                 const sum_matrix& c) {
  static_assert(host::product_columns % (Vectors * lanes) == 0);
  const auto end = row + (rows - row) / Rows * Rows;
  for (std::int64_t j = 0; j < columns; j += Vectors * lanes) {
    for (auto i = row; i < end; i += Rows) {
      add_tile<Rows, Vectors>(a.first + i * a.row, a.row, b.first + j, b.row, inner,
                              c.first + i * c.row + j, c.row);
    }
  }
  return end;
}

void add_product_f32(const factor_matrix& a, const factor_matrix& b, std::int64_t rows,
                     std::int64_t inner, std::int64_t columns, const sum_matrix& c) {
  // Few rows need more columns, so that enough independent sums hide the latency of an addition.
  constexpr auto most_vectors =
      static_cast<int>(std::min<std::int64_t>(4, host::product_columns / lanes));
  // Rows of b that stay in the first-level cache while all tiles are multiplied with them.
  constexpr std::int64_t block = 128;
  for (std::int64_t first = 0; first < inner; first += block) {
    const auto count = std::min(block, inner - first);
    const factor_matrix a_block{a.first + first, a.row};
    const factor_matrix b_block{b.first + first * b.row, b.row};
    auto row = add_rows<4, 2>(a_block, b_block, 0, rows, count, columns, c);
    row = add_rows<2, most_vectors>(a_block, b_block, row, rows, count, columns, c);
    add_rows<1, most_vectors>(a_block, b_block, row, rows, count, columns, c);
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
