// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/gemm_blocks.hpp"
#include "operations/elementwise/f32_loops.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::host {

/// Lines of a matrix as f32, one behind the other.
class converted_matrix {
 public:
  /// The part of `matrix` from (row, column) on, whose elements are of the real type `type` and
  /// have `element_bytes` bytes.
  void load(operations::storage type, std::size_t element_bytes, const void* first,
            const blas_matrix& matrix, std::int64_t row, std::int64_t column, std::int64_t rows,
            std::int64_t columns) {
    const auto size = static_cast<std::int64_t>(element_bytes);
    const auto lines = matrix.transposed ? rows : columns;
    length_ = matrix.transposed ? columns : rows;
    elements_.resize(static_cast<std::size_t>(lines * length_));
    const auto* line =
        static_cast<const std::byte*>(first) +
        size * (matrix.transposed ? row * matrix.leading + column : column * matrix.leading + row);
    if (length_ == matrix.leading) return load_f32(type, line, lines * length_, elements_.data());
    for (std::int64_t i = 0; i < lines; ++i, line += size * matrix.leading) {
      load_f32(type, line, length_, &elements_[static_cast<std::size_t>(i * length_)]);
    }
  }
  [[nodiscard]] const float* data() const noexcept { return elements_.data(); }
  [[nodiscard]] blasint leading() const noexcept { return static_cast<blasint>(length_); }

 private:
  std::vector<float> elements_;
  std::int64_t length_ = 1;
};

}  // namespace sluice::host
