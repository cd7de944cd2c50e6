// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/converted_matrix.hpp"
#include "operations/blas/epilogue_host.hpp"
#include "operations/blas/gemm_blocks.hpp"
#include "operations/elementwise/f32_loops.hpp"
#include "operations/elementwise/layouts.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::host {
namespace {

/// Columns of op(first) that are multiplied at once, so that the converted operands of a block stay
/// small.
constexpr std::int64_t most_terms = 2048;

/// The scratch memory of a thread.
struct block_memory {
  converted_matrix first;
  converted_matrix second;
  std::vector<float> sums;
  std::vector<float> previous;  ///< a column of C
};

/// The first element of a matrix of a stack.
const void* matrix_at(const void* stack, element_type type, std::int64_t matrix,
                      std::int64_t distance) {
  return static_cast<const std::byte*>(stack) +
         matrix * distance * static_cast<std::int64_t>(size_of(type));
}

/// alpha · op(first) · op(second) of a block, in f32.
void multiply_block(const converted_product& p, const matrix_part& part, block_memory& memory) {
  const auto& call = p.call;
  const auto [matrix, row, column, rows, columns] = part;
  const auto* const first = matrix_at(p.first, p.first_type, matrix, call.first.distance);
  const auto* const second = matrix_at(p.second, p.second_type, matrix, call.second.distance);
  memory.sums.resize(static_cast<std::size_t>(rows * columns));
  // With a factor of 0, OpenBLAS reads no matrix, so NaN would get lost.
  const bool is_scaled_later = p.alpha == 0;
  for (std::int64_t term = 0; term < call.k; term += most_terms) {
    const auto terms = std::min(most_terms, call.k - term);
    memory.first.load(operations::storage_of(p.first_type), size_of(p.first_type), first,
                      call.first, row, term, rows, terms);
    memory.second.load(operations::storage_of(p.second_type), size_of(p.second_type), second,
                       call.second, term, column, terms, columns);
    const library_call_scope scope({}, {});
    multiply(product<float>{
        operation(call.first), operation(call.second), static_cast<blasint>(rows),
        static_cast<blasint>(columns), static_cast<blasint>(terms), is_scaled_later ? 1 : p.alpha,
        memory.first.data(), memory.first.leading(), memory.second.data(), memory.second.leading(),
        term == 0 ? 0.0F : 1.0F, memory.sums.data(), static_cast<blasint>(rows)});
  }
  if (!is_scaled_later) return;
  for (auto& sum : memory.sums) sum *= p.alpha;
}

/// Adds beta · C to the sums of a block. `Element` has the size of the elements of C.
template <class Element>
void add_previous(const gemm_call& call, const Element* c, const matrix_part& part,
                  block_memory& memory) {
  const auto beta = static_cast<float>(call.beta.real());
  memory.previous.resize(static_cast<std::size_t>(part.rows));
  for (std::int64_t j = 0; j < part.columns; ++j) {
    float* const sums = &memory.sums[static_cast<std::size_t>(j * part.rows)];
    load_f32(operations::storage_of(call.c_type),
             element_address(c, call.c, part.row, part.column + j), part.rows,
             memory.previous.data());
    for (std::int64_t i = 0; i < part.rows; ++i) {
      sums[i] += beta * memory.previous[static_cast<std::size_t>(i)];
    }
  }
}

/// Rounds the sums of a block to the type of C.
template <class Element>
void store_block(const gemm_call& call, Element* c, const matrix_part& part,
                 const block_memory& memory) {
  for (std::int64_t j = 0; j < part.columns; ++j) {
    store_f32(operations::storage_of(call.c_type),
              &memory.sums[static_cast<std::size_t>(j * part.rows)], part.rows,
              element_address(c, call.c, part.row, part.column + j));
  }
}

}  // namespace

void compute_converted(const converted_product& p, const product_epilogue& epilogue) {
  const auto& call = p.call;
  const auto blocks = result_blocks::of<float>(call);
  const auto compute_block = [&](std::int64_t block, block_memory& memory) {
    const auto i = block / blocks.in_product();
    const auto row = block % blocks.in_product() % blocks.down * blocks.rows;
    const auto column = block % blocks.in_product() / blocks.down * blocks.columns;
    const auto rows = std::min(blocks.rows, call.m - row);
    const auto columns = std::min(blocks.columns, call.n - column);
    const matrix_part part{
        .matrix = i, .row = row, .column = column, .rows = rows, .columns = columns};
    multiply_block(p, part, memory);
    const auto finish = [&](auto* first_of_c) {
      auto* const matrix = first_of_c + i * call.c.distance;
      if (call.beta != 0.0) add_previous(call, matrix, part, memory);
      if (epilogue.call != nullptr) {
        host_epilogue<float>(*epilogue.call, epilogue.addresses)
            .apply(part, memory.sums.data(), rows);
      }
      store_block(call, matrix, part, memory);
    };
    if (call.c_type == element_type::f32) {
      finish(static_cast<float*>(p.c));
    } else {
      finish(static_cast<std::uint16_t*>(p.c));
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
