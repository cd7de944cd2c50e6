// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// What `cumulative` makes of the elements up to each one.
enum class cumulative_kind : std::uint8_t {
  sum,      ///< their sum
  product,  ///< their product
};

/// The sums or the products of all elements of X up to each one along a dimension.
///
///     cumulative{.x = x, .axis = 1}                     // 1 2 3 becomes 1 3 6
///     cumulative{.x = x, .axis = 1, .exclusive = true}  // 1 2 3 becomes 0 1 3
///
/// Integers wrap around. f16, bf16, f32 and f64 are computed in f64, c64 and c128 in c128, and each
/// result is rounded once. X is of any type but boolean, e4m3 and e5m2. NumPy calls this `cumsum`
/// and `cumprod`, ONNX CumSum and CumProd.
///
/// Sums begin with 0, so -0 counts as 0, and products with 1. A GPU combines elements in another
/// order than the host: a product of some of them may overflow, even if they follow a 0. On one
/// machine, the result of a shape and its strides is always the same. All strides are allowed. Y
/// may be the same view as X; otherwise it shares no bytes with X. The result is Y, a new row-major
/// tensor if it is not given.
struct cumulative {
  operand x{};                                  ///< X, with at least one dimension
  std::int64_t axis = 0;                        ///< the dimension; negative: from the last
  cumulative_kind kind = cumulative_kind::sum;  ///< what is computed
  bool exclusive = false;  ///< without the element itself; the first result is 0, or 1 of products
  bool reverse = false;    ///< from the last element to the first
  operand y{};             ///< Y, of the type and the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &cumulative::x), parameter("axis", &cumulative::axis),
                           parameter("kind", &cumulative::kind),
                           parameter("exclusive", &cumulative::exclusive),
                           parameter("reverse", &cumulative::reverse), output("y", &cumulative::y));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<cumulative>);

}  // namespace sluice
