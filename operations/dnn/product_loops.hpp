// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Products of small matrices of f32 with the largest vectors of the processor.
namespace sluice::host {

/// The columns of a panel.
inline constexpr std::int64_t product_columns = 32;

/// A row-major matrix.
template <class T>
struct small_matrix {
  T* first;
  std::int64_t row;  ///< distance of neighbouring rows, in elements
};

/// The columns of a matrix in panels without gaps. A panel is row-major.
struct column_panels {
  const float* first;
  std::int64_t count;
  std::int64_t rows;  ///< of the matrix

  /// The elements of a panel.
  [[nodiscard]] constexpr std::int64_t size() const noexcept { return product_columns * rows; }
};

/// c += a · b for `rows` rows of a. An element has the same bits for any number of rows.
void add_product_f32(const small_matrix<const float>& a, std::int64_t rows, const column_panels& b,
                     const small_matrix<float>& c);

}  // namespace sluice::host
