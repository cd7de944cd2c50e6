// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/functors.hpp"
#include "operations/elementwise/storage.hpp"

#include <cstdint>

// Loops over elements without gaps that are computed in f32, with the largest vectors of the
// processor. An output may be at the address of an input of its type. An address need not be that
// of a whole vector.
namespace sluice::host {

/// target[i] = the element i at `source`, of a real type.
void load_f32(operations::storage type, const void* source, std::int64_t count, float* target);
/// The element i at `target`, of any type, = source[i], rounded to the nearest value.
void store_f32(operations::storage type, const float* source, std::int64_t count, void* target);
/// y[i] = f(a[i], b[i]).
void binary_f32(binary_function f, const float* a, const float* b, std::int64_t count, float* y);
/// y[i] = function(x[i]), with an error of at most 4 units in the last place, and with equal bits
/// wherever an element lies.
void unary_f32(const operations::unary_map<float>& function, const float* x, std::int64_t count,
               float* y);
/// y[i] = x[i] · scale[i] + bias[i]. Without one of them, nullptr, the constant of `function`
/// stands for it.
void affine_f32(const operations::scaled_and_shifted<float>& function, const float* x,
                const float* scale, const float* bias, std::int64_t count, float* y);

/// What is added of each element.
enum class sum_term { number, magnitude, square };
/// The sum of the terms of `count` elements in f64.
[[nodiscard]] double sum_f32(sum_term term, const float* x, std::int64_t count);
/// The largest of `count` elements, as `larger` orders them; -infinity if there are none.
[[nodiscard]] float max_f32(const float* x, std::int64_t count);
/// The smallest of `count` elements, as `smaller` orders them; infinity if there are none.
[[nodiscard]] float min_f32(const float* x, std::int64_t count);
/// Rows of `count` elements, `distance` elements apart.
struct f32_rows {
  const float* x;
  std::int64_t distance;
  std::int64_t rows;
};
/// sums[i] += the sum of the terms of element i of all rows, in f64.
void sum_rows_f32(sum_term term, const f32_rows& rows, std::int64_t count, double* sums);
/// largest[i] = the larger one of it and the largest element i of all rows, as `larger` orders
/// them.
void max_rows_f32(const f32_rows& rows, std::int64_t count, float* largest);
/// smallest[i] = the smaller one of it and the smallest element i of all rows, as `smaller` orders
/// them.
void min_rows_f32(const f32_rows& rows, std::int64_t count, float* smallest);

}  // namespace sluice::host
