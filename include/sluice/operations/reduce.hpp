// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <tuple>

namespace sluice {

/// What a reduction makes of many elements.
enum class reduction : std::uint8_t {
  sum,   ///< their sum; 0 if there are none
  mean,  ///< their sum divided by their number
  max,   ///< the largest one; NaN if one is NaN; +0 is larger than -0
};

/// Dimensions of a tensor, `{0, 1}`; by default all of them.
struct reduced_axes : std::optional<extents> {
  using std::optional<extents>::optional;
  // NOLINTNEXTLINE(google-explicit-constructor): `.axes = {0, 1}` in a request.
  reduced_axes(std::initializer_list<std::int64_t> axes) : optional(extents(axes)) {}  ///< some
  // NOLINTNEXTLINE(google-explicit-constructor)
  reduced_axes(const std::optional<extents>& axes) : optional(axes) {}  ///< some or all
};

/// The sum, the mean or the maximum of the elements of X along some of its dimensions.
///
///     reduce{.x = images, .kind = reduction::mean, .axes = {2, 3}}
///
/// Without `axes` all dimensions are reduced. Y has the dimensions that remain; with `keep_dims`,
/// the reduced ones remain with extent 1.
///
/// | kind | X | Y | computed in |
/// |---|---|---|---|
/// | sum, mean | f16, bf16, f32, f64 | type of X | f64 |
/// | sum, mean | c64, c128 | type of X | c128 |
/// | sum | boolean, i8, i16, i32, i64 | i64 | i64, wraps around |
/// | sum | u8, u16, u32, u64 | u64 | u64, wraps around |
/// | mean | boolean, integers | f64 | f64 |
/// | max | boolean, integers, f16, bf16, f32, f64 | type of X | exact |
///
/// The host adds in order, GPUs in a tree. On one kind of device the result of a shape and its
/// strides is always the same. All strides are allowed. X and Y share no bytes. The result is Y, a
/// new row-major tensor if it is not given.
struct reduce {
  operand x{};                      ///< X; for mean and max with an element for each result
  reduction kind = reduction::sum;  ///< what is computed
  reduced_axes axes{};              ///< reduced dimensions, each once; negative: from the last
  bool keep_dims = false;           ///< whether reduced dimensions remain, with extent 1
  operand y{};                      ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &reduce::x), parameter("kind", &reduce::kind),
                           parameter("axes", &reduce::axes),
                           parameter("keep_dims", &reduce::keep_dims), output("y", &reduce::y));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<reduce>);

}  // namespace sluice
