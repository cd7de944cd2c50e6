// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/converted_matrix.hpp"
#include "operations/blas/gemm_blocks.hpp"
#include "operations/elementwise/layouts.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice::host {
namespace {

/// Sums of so many products of a u8 and an i8 are exact in f32: 512 · 255 · 128 < 2^24.
constexpr std::int64_t most_exact_terms = 512;

/// The scratch memory of a thread.
struct integer_memory {
  converted_matrix first;
  converted_matrix second;
  std::vector<float> sums;
};

struct result_block {
  std::int64_t row;
  std::int64_t column;
  std::int64_t rows;
  std::int64_t columns;
};

/// Adds the products of the columns from `term` on to a block of C.
void add_products(const gemm_call& call, const void* first, const void* second,
                  const result_block& block, std::int64_t term, std::int32_t* c,
                  integer_memory& memory) {
  const auto terms = std::min(most_exact_terms, call.k - term);
  const auto [row, column, rows, columns] = block;
  const auto a = operations::storage_of(call.type);
  constexpr auto b = operations::storage::i8;
  memory.first.load(call.swapped ? b : a, 1, first, call.first, row, term, rows, terms);
  memory.second.load(call.swapped ? a : b, 1, second, call.second, term, column, terms, columns);
  memory.sums.resize(static_cast<std::size_t>(rows * columns));
  {
    const library_call_scope scope({}, {});
    multiply(product<float>{operation(call.first), operation(call.second),
                            static_cast<blasint>(rows), static_cast<blasint>(columns),
                            static_cast<blasint>(terms), 1, memory.first.data(),
                            memory.first.leading(), memory.second.data(), memory.second.leading(),
                            0, memory.sums.data(), static_cast<blasint>(rows)});
  }
  for (std::int64_t j = 0; j < columns; ++j) {
    const float* const sums = &memory.sums[static_cast<std::size_t>(j * rows)];
    std::int32_t* const target = element_address(c, call.c, row, column + j);
    for (std::int64_t i = 0; i < rows; ++i) {
      target[i] =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(target[i]) +
                                    static_cast<std::uint32_t>(static_cast<std::int32_t>(sums[i])));
    }
  }
}

}  // namespace

void compute_integers(const gemm_call& call, const launch_of<gemm>& launch) {
  const auto* const a = launch.get<const std::byte>(&gemm::a);
  const auto* const b = launch.get<const std::byte>(&gemm::b);
  const auto* const first = call.swapped ? b : a;
  const auto* const second = call.swapped ? a : b;
  auto* const c = launch.get<std::int32_t>(&gemm::c);
  const auto blocks = result_blocks::of<float>(call);
  const auto compute_block = [&](std::int64_t number, integer_memory& memory) {
    const auto i = number / blocks.in_product();
    result_block block{};
    block.row = number % blocks.in_product() % blocks.down * blocks.rows;
    block.column = number % blocks.in_product() / blocks.down * blocks.columns;
    block.rows = std::min(blocks.rows, call.m - block.row);
    block.columns = std::min(blocks.columns, call.n - block.column);
    auto* const matrix = c + i * call.c.distance;
    for (std::int64_t j = 0; call.beta == 0.0 && j < block.columns; ++j) {
      std::fill_n(element_address(matrix, call.c, block.row, block.column + j), block.rows, 0);
    }
    for (std::int64_t term = 0; call.multiplies && term < call.k; term += most_exact_terms) {
      add_products(call, first + i * call.first.distance, second + i * call.second.distance, block,
                   term, matrix, memory);
    }
  };
  constexpr double products_in_nanosecond = 30;
  const work_chunks chunks(call.count * blocks.in_product(),
                           static_cast<double>(blocks.rows) * static_cast<double>(blocks.columns) *
                               static_cast<double>(call.k) / products_in_nanosecond);
  parallel_for(chunks.count(), [&](std::int64_t chunk) {
    integer_memory memory;
    for (auto block = chunks[chunk].begin; block < chunks[chunk].end; ++block) {
      compute_block(block, memory);
    }
  });
}

}  // namespace sluice::host
