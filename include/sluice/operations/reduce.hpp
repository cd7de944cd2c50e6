// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/optional_extents.hpp>
#include <sluice/operations/reduction.hpp>

#include <cstdint>
#include <optional>
#include <tuple>

namespace sluice {

/// A number for many elements of X: of those along some of its dimensions.
///
///     reduce{.x = images, .kind = reduction::mean, .axes = {2, 3}}
///     reduce{.x = scores, .kind = reduction::argmax, .axes = {-1}}
///
/// Without `axes` all dimensions are reduced. Y has the dimensions that remain; with `keep_dims`,
/// the reduced ones remain with extent 1.
///
/// | kind | X | Y | computed in |
/// |---|---|---|---|
/// | sum, product, l1, sum_of_squares | f16, bf16, f32, f64 | type of X | f64 |
/// | sum, product, l1, sum_of_squares | boolean, i8, i16, i32, i64 | i64 | i64, wraps around |
/// | sum, product, l1, sum_of_squares | u8, u16, u32, u64 | u64 | u64, wraps around |
/// | sum, mean, product | c64, c128 | type of X | c128 |
/// | mean, l2, log_sum, log_sum_exp, variance | f16, bf16, f32, f64 | type of X | f64 |
/// | mean, l2, log_sum, log_sum_exp, variance | boolean, integers | f64 | f64 |
/// | max, min | boolean, integers, f16, bf16, f32, f64 | type of X | exact |
/// | any, all | boolean, integers, f16, bf16, f32, f64 | boolean | exact |
/// | argmax, argmin | boolean, integers, f16, bf16, f32, f64 | i64 | exact |
///
/// The order of additions depends on the device, and on the host on the size of its vectors. On one
/// machine, the result of a shape, its strides and the alignment of its address is always the same.
/// All strides are allowed. X and Y share no
/// bytes. The result is Y, a new row-major tensor if it is not given.
struct reduce {
  operand x{};                      ///< X
  reduction kind = reduction::sum;  ///< what is computed
  optional_extents axes{};          ///< reduced dimensions, each once; negative: from the last
  bool keep_dims = false;           ///< whether reduced dimensions remain, with extent 1
  /// The variance divides by the number of elements minus `correction`: 1 estimates the variance of
  /// a population from a sample. At least 0, and 0 for all other kinds. The result is NaN or
  /// infinity if there are not more elements.
  std::int64_t correction = 0;
  /// For argmax and argmin: the last one of equal elements instead of the first. False for all
  /// other kinds.
  bool last = false;
  operand y{};  ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &reduce::x), parameter("kind", &reduce::kind), parameter("axes", &reduce::axes),
        parameter("keep_dims", &reduce::keep_dims), parameter("correction", &reduce::correction),
        parameter("last", &reduce::last), output("y", &reduce::y));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<reduce>);

}  // namespace sluice
