// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/gemm_call.hpp"
#include "operations/dnn/product_loops.hpp"
#include "operations/elementwise/storage.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice::host {

/// A copy of rows of a matrix, for many products with them. A panel has `product_columns` rows as
/// its columns; missing ones are 0.
struct row_panels {
  float* first = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;  ///< of a row

  /// The columns of a product with so many rows.
  [[nodiscard]] static constexpr std::int64_t width(std::int64_t rows) noexcept {
    return (rows + product_columns - 1) / product_columns * product_columns;
  }
  [[nodiscard]] std::int64_t count() const noexcept { return width(rows) / product_columns; }
  /// The elements of a panel.
  [[nodiscard]] std::int64_t panel_size() const noexcept { return product_columns * columns; }
  [[nodiscard]] std::int64_t size() const noexcept { return width(rows) * columns; }
  /// Some of the panels.
  [[nodiscard]] row_panels range(std::int64_t first_panel,
                                 std::int64_t panel_count) const noexcept {
    const auto first_row = first_panel * product_columns;
    return {first + first_panel * panel_size(),
            std::min(panel_count * product_columns, rows - first_row), columns};
  }
};

/// Copies the rows of a matrix from `first_row` on, whose elements are of a real type.
void pack_rows(operations::storage type, const void* elements,
               const operations::blas_matrix& matrix, std::int64_t first_row,
               const row_panels& panels);

/// c += a · rowsᵀ for `count` rows of a. A row of c has `row_panels::width` elements.
void add_product(const small_matrix<const float>& a, std::int64_t count, const row_panels& panels,
                 const small_matrix<float>& c);

}  // namespace sluice::host
