// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/row_panels.hpp"

#include "operations/elementwise/f32_loops.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sluice::host {
namespace {

/// Columns of the rows of a panel that stay in the first-level cache while they are transposed.
constexpr std::int64_t columns_of_block = 64;

/// Rows of a matrix.
struct matrix_rows {
  operations::storage type;
  const std::byte* elements;
  std::int64_t row;     // distance of neighbouring rows
  std::int64_t column;  // distance of neighbouring columns

  void read(std::int64_t r, std::int64_t c, std::int64_t count, float* target) const {
    const auto offset = r * row + c * column;
    if (column == 1) {
      return load_f32(type, elements + offset * operations::bytes_of(type), count, target);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      target[i] = operations::load<float>(type, elements, offset + i * column);
    }
  }
};

void pack_panel(const matrix_rows& matrix, std::int64_t first_row, std::int64_t rows,
                std::int64_t columns, float* panel) {
  if (rows < product_columns) std::fill_n(panel, product_columns * columns, 0.0F);
  std::array<float, static_cast<std::size_t>(product_columns * columns_of_block)> numbers;
  for (std::int64_t first = 0; first < columns; first += columns_of_block) {
    const auto count = std::min(columns_of_block, columns - first);
    for (std::int64_t row = 0; row < rows; ++row) {
      matrix.read(first_row + row, first, count,
                  &numbers[static_cast<std::size_t>(row * columns_of_block)]);
    }
    float* const target = panel + first * product_columns;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t row = 0; row < rows; ++row) {
        target[i * product_columns + row] =
            numbers[static_cast<std::size_t>(row * columns_of_block + i)];
      }
    }
  }
}

}  // namespace

void pack_rows(operations::storage type, const void* elements,
               const operations::blas_matrix& matrix, std::int64_t first_row,
               const row_panels& panels) {
  const matrix_rows rows{type, static_cast<const std::byte*>(elements),
                         matrix.transposed ? matrix.leading : 1,
                         matrix.transposed ? 1 : matrix.leading};
  const work_chunks chunks(panels.count(), static_cast<double>(panels.panel_size()));
  parallel_for(chunks.count(), [&](std::int64_t chunk) {
    for (auto p = chunks[chunk].begin; p < chunks[chunk].end; ++p) {
      const auto row = p * product_columns;
      pack_panel(rows, first_row + row, std::min(product_columns, panels.rows - row),
                 panels.columns, panels.first + p * panels.panel_size());
    }
  });
}

void add_product(const small_matrix<const float>& a, std::int64_t count, const row_panels& panels,
                 const small_matrix<float>& c) {
  add_product_f32(a, count, {panels.first, panels.count(), panels.columns}, c);
}

}  // namespace sluice::host
