// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/softmax_columns.hpp"

#include "operations/dnn/row_loops.hpp"
#include "operations/elementwise/f32_loops.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace sluice::host {
namespace {

using namespace operations;

/// The most columns that are computed at once: a line of them fills a page.
constexpr std::int64_t columns_at_once = 1024;

/// @param x        the lines of a matrix
/// @param distance that of the lines of y
/// @param count    columns, at most `columns_at_once`
void compute_block(normalization kind, const f32_rows& x, float* y, std::int64_t distance,
                   std::int64_t count) {
  const bool is_logarithm = kind == normalization::log_softmax;
  constexpr auto size = static_cast<std::size_t>(columns_at_once);
  std::array<float, size> largest;
  std::array<double, size> sums;
  std::fill_n(largest.begin(), count, -HUGE_VALF);
  std::fill_n(sums.begin(), count, 0.0);
  max_rows_f32(x, count, largest.data());
  exponentials_of_columns_f32(x, count, largest.data(), is_logarithm ? nullptr : y, distance,
                              sums.data());
  std::array<float, size> numbers;  // factors, or summands
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    numbers[i] = static_cast<float>(is_logarithm ? std::log(sums[i]) : 1.0 / sums[i]);
  }
  for (std::int64_t line = 0; line < x.rows; ++line) {
    float* const target = y + line * distance;
    if (is_logarithm) {
      binary_f32(binary_function::subtract, x.x + line * x.distance, largest.data(), count, target);
      binary_f32(binary_function::subtract, target, numbers.data(), count, target);
    } else {
      binary_f32(binary_function::multiply, target, numbers.data(), count, target);
    }
  }
}

}  // namespace

bool has_softmax_columns(const normalize_call& call) noexcept {
  // Fewer columns are faster one by one.
  constexpr std::int64_t least = 16;
  return call.type == storage::f32 && call.rank == call.row_rank + 1 &&
         call.shape[call.row_rank - 1] >= least &&
         (call.kind == normalization::softmax || call.kind == normalization::log_softmax);
}

void compute_softmax_columns(const normalize_call& call, const normalize_addresses& addresses,
                             const map_position<3>& first, std::int64_t count) {
  const auto* const x = static_cast<const float*>(addresses.x) + first.offsets[1];
  auto* const y = static_cast<float*>(addresses.y) + first.offsets[0];
  const auto distance_of = [&](int operand) {
    return call.strides[operand][call.row_rank];
  };
  for (std::int64_t i = 0; i < count; i += columns_at_once) {
    compute_block(call.kind, {x + i, distance_of(1), call.count}, y + i, distance_of(0),
                  std::min(columns_at_once, count - i));
  }
}

}  // namespace sluice::host
