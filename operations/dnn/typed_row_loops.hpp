// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/row_loops.hpp"
#include "operations/elementwise/f32_loops.hpp"
#include "operations/elementwise/functors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

// The loops of normalizations over rows without gaps.
namespace sluice::host {

/// How numbers of type `T` are computed: f32 in vectors.
///@{
template <class T>
struct row_loops;
template <>
struct row_loops<float> {
  /// Without NaN, which make the sum of the exponentials NaN.
  static float largest(const float* x, std::int64_t count) { return largest_number_f32(x, count); }
  /// In f64: sums of large numbers overflow in f32 though their mean does not.
  static double sum(const float* x, std::int64_t count) {
    return sum_f32(sum_term::number, x, count);
  }
  static double magnitudes(const float* x, std::int64_t count) {
    return sum_f32(sum_term::magnitude, x, count);
  }
  static double squares(const float* x, std::int64_t count) {
    return sum_f32(sum_term::square, x, count);
  }
  static double exponentials(const float* x, std::int64_t count, float shift, float* y) {
    return exponentials_f32(x, count, shift, y);
  }
  static deviation_sums deviations(const float* x, std::int64_t count, float shift) {
    return deviations_f32(x, count, shift);
  }
  static void map(const row_map<float>& map, const float* x, std::int64_t count, float* y) {
    map_row_f32(map, x, count, y);
  }
  static void load_flat(operations::storage type, const void* x, std::int64_t count,
                        float* target) {
    load_f32(type, x, count, target);
  }
  static void store_flat(operations::storage type, const float* source, std::int64_t count,
                         void* y) {
    store_f32(type, source, count, y);
  }
  static constexpr operations::storage direct = operations::storage::f32;
};
template <>
struct row_loops<double> {
  static double largest(const double* x, std::int64_t count) {
    double result = -HUGE_VAL;
    for (std::int64_t i = 0; i < count; ++i) result = operations::larger(result, x[i]);
    return result;
  }
  static double sum(const double* x, std::int64_t count) {
    return sum_of(count, [&](std::int64_t i) { return x[i]; });
  }
  static double magnitudes(const double* x, std::int64_t count) {
    return sum_of(count, [&](std::int64_t i) { return std::abs(x[i]); });
  }
  static double squares(const double* x, std::int64_t count) {
    return sum_of(count, [&](std::int64_t i) { return x[i] * x[i]; });
  }
  static double exponentials(const double* x, std::int64_t count, double shift, double* y) {
    return sum_of(count, [&](std::int64_t i) {
      const double power = std::exp(x[i] - shift);
      if (y != nullptr) y[i] = power;
      return power;
    });
  }
  static deviation_sums deviations(const double* x, std::int64_t count, double shift) {
    const auto difference = [&](std::int64_t i) {
      return x[i] - shift;
    };
    return {sum_of(count, difference),
            sum_of(count, [&](std::int64_t i) { return difference(i) * difference(i); })};
  }
  static void map(const row_map<double>& map, const double* x, std::int64_t count, double* y) {
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = (x[i] - map.shift - map.residual) * map.factor *
                 (map.scale != nullptr ? map.scale[i] : map.constant_scale) +
             (map.bias != nullptr ? map.bias[i] : map.constant_bias);
    }
  }
  static void load_flat(operations::storage, const void* x, std::int64_t count, double* target) {
    std::copy_n(static_cast<const double*>(x), count, target);
  }
  static void store_flat(operations::storage, const double* source, std::int64_t count, void* y) {
    std::copy_n(source, count, static_cast<double*>(y));
  }
  static constexpr operations::storage direct = operations::storage::f64;

 private:
  /// The sum of `term(i)` for all i below `count`. Sums of blocks keep the rounding small.
  template <class Term>
  static double sum_of(std::int64_t count, const Term& term) {
    constexpr std::int64_t block = 256;
    double total = 0;
    for (std::int64_t first = 0; first < count; first += block) {
      double part = 0;
      for (std::int64_t i = first; i < std::min(count, first + block); ++i) part += term(i);
      total += part;
    }
    return total;
  }
};
///@}

}  // namespace sluice::host
