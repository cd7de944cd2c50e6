// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Products of small matrices of f32 with the largest vectors of the processor.
namespace sluice::host {

/// The columns of a product are a multiple of this number.
inline constexpr std::int64_t product_columns = 32;

/// A row-major matrix.
template <class T>
struct small_matrix {
  T* first;
  std::int64_t row;  ///< distance of neighbouring rows, in elements
};

/// c += a · b of rows × inner and inner × columns elements.
void add_product_f32(const small_matrix<const float>& a, const small_matrix<const float>& b,
                     std::int64_t rows, std::int64_t inner, std::int64_t columns,
                     const small_matrix<float>& c);

}  // namespace sluice::host
