// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/gemm_blocks.hpp"
#include "operations/elementwise/f32_loops.hpp"
#include "operations/elementwise/layouts.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice::host {
namespace {

/// Columns of op(first) that are multiplied at once, so that the converted operands of a block stay
/// small.
constexpr std::int64_t most_terms = 2048;

/// Lines of a matrix as f32, one behind the other.
class converted_matrix {
 public:
  /// The part of `matrix` from (row, column) on, of element type `type`.
  void load(operations::storage type, const void* first, const blas_matrix& matrix,
            std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
    const auto* const source = static_cast<const std::uint16_t*>(first);
    const auto lines = matrix.transposed ? rows : columns;
    length_ = matrix.transposed ? columns : rows;
    elements_.resize(static_cast<std::size_t>(lines * length_));
    const auto* line = element_address(source, matrix, row, column);
    if (length_ == matrix.leading) return load_f32(type, line, lines * length_, elements_.data());
    for (std::int64_t i = 0; i < lines; ++i, line += matrix.leading) {
      load_f32(type, line, length_, &elements_[static_cast<std::size_t>(i * length_)]);
    }
  }
  [[nodiscard]] const float* data() const noexcept { return elements_.data(); }
  [[nodiscard]] blasint leading() const noexcept { return static_cast<blasint>(length_); }

 private:
  std::vector<float> elements_;
  std::int64_t length_ = 1;
};

/// The scratch memory of a thread.
struct block_memory {
  converted_matrix first;
  converted_matrix second;
  std::vector<float> sums;
  std::vector<float> previous;  ///< a column of C
};

/// alpha · op(first) · op(second) of a block, in f32.
void multiply_block(const gemm_call& call, const void* first, const void* second, std::int64_t row,
                    std::int64_t column, std::int64_t rows, std::int64_t columns,
                    block_memory& memory) {
  const auto type = operations::storage_of(call.type);
  memory.sums.resize(static_cast<std::size_t>(rows * columns));
  for (std::int64_t term = 0; term < call.k; term += most_terms) {
    const auto terms = std::min(most_terms, call.k - term);
    memory.first.load(type, first, call.first, row, term, rows, terms);
    memory.second.load(type, second, call.second, term, column, terms, columns);
    const library_call_scope scope({}, {});
    multiply(product<float>{operation(call.first), operation(call.second),
                            static_cast<blasint>(rows), static_cast<blasint>(columns),
                            static_cast<blasint>(terms), static_cast<float>(call.alpha.real()),
                            memory.first.data(), memory.first.leading(), memory.second.data(),
                            memory.second.leading(), term == 0 ? 0.0F : 1.0F, memory.sums.data(),
                            static_cast<blasint>(rows)});
  }
}

/// C = sums + beta · C for a block, rounded to the type of C. `Element` has the size of its
/// elements.
template <class Element>
void store_block(const gemm_call& call, Element* c, std::int64_t row, std::int64_t column,
                 std::int64_t rows, std::int64_t columns, block_memory& memory) {
  const auto type = operations::storage_of(call.c_type);
  const auto beta = static_cast<float>(call.beta.real());
  for (std::int64_t j = 0; j < columns; ++j) {
    float* const sums = &memory.sums[static_cast<std::size_t>(j * rows)];
    auto* const target = element_address(c, call.c, row, column + j);
    if (beta != 0) {
      memory.previous.resize(static_cast<std::size_t>(rows));
      load_f32(type, target, rows, memory.previous.data());
      for (std::int64_t i = 0; i < rows; ++i) {
        sums[i] += beta * memory.previous[static_cast<std::size_t>(i)];
      }
    }
    store_f32(type, sums, rows, target);
  }
}

}  // namespace

void compute_16_bit(const gemm_call& call, const launch_of<gemm>& launch) {
  const auto* const a = launch.get<const void>(&gemm::a);
  const auto* const b = launch.get<const void>(&gemm::b);
  void* const c = launch.get<void>(&gemm::c);
  const auto* const first = static_cast<const std::uint16_t*>(call.swapped ? b : a);
  const auto* const second = static_cast<const std::uint16_t*>(call.swapped ? a : b);
  const auto blocks = result_blocks::of<float>(call);
  const auto compute_block = [&](std::int64_t block, block_memory& memory) {
    const auto i = block / blocks.in_product();
    const auto row = block % blocks.in_product() % blocks.down * blocks.rows;
    const auto column = block % blocks.in_product() / blocks.down * blocks.columns;
    const auto rows = std::min(blocks.rows, call.m - row);
    const auto columns = std::min(blocks.columns, call.n - column);
    multiply_block(call, first + i * call.first.distance, second + i * call.second.distance, row,
                   column, rows, columns, memory);
    if (call.c_type == element_type::f32) {
      store_block(call, static_cast<float*>(c) + i * call.c.distance, row, column, rows, columns,
                  memory);
    } else {
      store_block(call, static_cast<std::uint16_t*>(c) + i * call.c.distance, row, column, rows,
                  columns, memory);
    }
  };
  constexpr double products_in_nanosecond = 30;
  const work_chunks chunks(call.count * blocks.in_product(),
                           static_cast<double>(blocks.rows) * static_cast<double>(blocks.columns) *
                               static_cast<double>(call.k) / products_in_nanosecond);
  parallel_for(chunks.count(), [&](std::int64_t chunk) {
    block_memory memory;
    for (auto block = chunks[chunk].begin; block < chunks[chunk].end; ++block) {
      compute_block(block, memory);
    }
  });
}

}  // namespace sluice::host
