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
// Few rows need more columns, so that enough independent sums hide the latency of an addition.
constexpr auto most_vectors =
    static_cast<int>(std::min<std::int64_t>(4, host::product_columns / lanes));

/// Adds to `Rows` rows and, in each of `Panels` panels, `Vectors` vectors of columns. The sums stay
/// in registers.
template <int Rows, int Vectors, int Panels = 1>
HWY_INLINE void add_tile(const factor_matrix& a, const float* b, std::int64_t panel_size,
                         std::int64_t inner, const sum_matrix& c) {
  const hn::ScalableTag<float> d;
  using vector = hn::Vec<decltype(d)>;
  constexpr int count = Panels * Vectors;
  vector sums[Rows][count];
  const auto target = [&](int r, int v) {
    return c.first + r * c.row + v / Vectors * host::product_columns + v % Vectors * lanes;
  };
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < count; ++v) sums[r][v] = hn::LoadU(d, target(r, v));
  }
  for (std::int64_t i = 0; i < inner; ++i) {
    const float* const row = b + i * host::product_columns;
    vector columns[count];
    for (int v = 0; v < count; ++v) {
      columns[v] = hn::LoadU(d, row + v / Vectors * panel_size + v % Vectors * lanes);
    }
    for (int r = 0; r < Rows; ++r) {
      const auto factor = hn::Set(d, a.first[r * a.row + i]);
      for (int v = 0; v < count; ++v) sums[r][v] = hn::MulAdd(factor, columns[v], sums[r][v]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < count; ++v) hn::StoreU(sums[r][v], d, target(r, v));
  }
}

/// Adds to the rows [row, rows), `Rows` at a time, and the columns of a panel. Returns the first of
/// the rows that are left.
template <int Rows, int Vectors>
HWY_INLINE std::int64_t add_rows(const factor_matrix& a, const float* panel, std::int64_t row,
                                 std::int64_t rows, std::int64_t inner, const sum_matrix& c) {
  static_assert(host::product_columns % (Vectors * lanes) == 0);
  const auto end = row + (rows - row) / Rows * Rows;
  for (std::int64_t j = 0; j < host::product_columns; j += Vectors * lanes) {
    for (auto i = row; i < end; i += Rows) {
      add_tile<Rows, Vectors>({a.first + i * a.row, a.row}, panel + j, 0, inner,
                              {c.first + i * c.row + j, c.row});
    }
  }
  return end;
}

void add_panel(const factor_matrix& a, std::int64_t rows, const float* panel, std::int64_t inner,
               const sum_matrix& c) {
  // Rows of the panel that stay in the first-level cache while all tiles are multiplied with them.
  constexpr std::int64_t block = 128;
  for (std::int64_t first = 0; first < inner; first += block) {
    const auto count = std::min(block, inner - first);
    const factor_matrix a_block{a.first + first, a.row};
    const float* const b_block = panel + first * host::product_columns;
    auto row = add_rows<4, 2>(a_block, b_block, 0, rows, count, c);
    row = add_rows<2, most_vectors>(a_block, b_block, row, rows, count, c);
    add_rows<1, most_vectors>(a_block, b_block, row, rows, count, c);
  }
}

/// Adds to one row and the columns of two panels, which are read from memory at the same time.
void add_panel_pair(const factor_matrix& a, const float* panels, std::int64_t panel_size,
                    std::int64_t inner, const sum_matrix& c) {
  for (std::int64_t j = 0; j < host::product_columns; j += most_vectors * lanes) {
    add_tile<1, most_vectors, 2>(a, panels + j, panel_size, inner, {c.first + j, c.row});
  }
}

void add_product_f32(const factor_matrix& a, std::int64_t rows, const host::column_panels& b,
                     const sum_matrix& c) {
  std::int64_t p = 0;
  const auto sums = [&] {
    return sum_matrix{c.first + p * host::product_columns, c.row};
  };
  if (rows == 1) {
    for (; p + 2 <= b.count; p += 2) {
      add_panel_pair(a, b.first + p * b.size(), b.size(), b.rows, sums());
    }
  }
  for (; p < b.count; ++p) add_panel(a, rows, b.first + p * b.size(), b.rows, sums());
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(add_product_f32);
}  // namespace sluice::operations

namespace sluice::host {

void add_product_f32(const small_matrix<const float>& a, std::int64_t rows, const column_panels& b,
                     const small_matrix<float>& c) {
  using namespace operations;
  HWY_DYNAMIC_DISPATCH(add_product_f32)(a, rows, b, c);
}

}  // namespace sluice::host
#endif
