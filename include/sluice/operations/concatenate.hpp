// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <cstdint>
#include <tuple>
#include <vector>

namespace sluice {

/// The tensors of a list one behind the other along a dimension.
///
///     concatenate{.x = {left, right}, .axis = -1}
///
/// The tensors are of one type, which may be any, and their shapes differ along `axis` only. There
/// are 1 to 63 of them. All strides are allowed. The launch uses packed copies of tensors whose
/// dimensions do not lie in memory in the order of those of Y.
///
/// Y shares no bytes with the tensors. The result is Y. If it is not given, it is a new tensor
/// whose dimensions lie in memory in the order of those of the first one.
///
/// The inverse needs no operation: `tensor::slice` and `program_value::slice` are views of parts.
struct concatenate {
  std::vector<operand> x{};  ///< the tensors, in order
  std::int64_t axis = 0;     ///< a dimension of them; negative: from the last
  operand y{};               ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &concatenate::x), parameter("axis", &concatenate::axis),
                           output("y", &concatenate::y));
  }
};

/// The tensors of a list as the indices of a new dimension.
///
///     stack{.x = {red, green, blue}, .axis = -1}
///
/// The tensors are of one type, which may be any, and of one shape. There are 1 to 63 of them. The
/// rest is as for `concatenate`. The inverse is `tensor::select`.
struct stack {
  std::vector<operand> x{};  ///< the tensors, in order
  std::int64_t axis = 0;     ///< the new dimension of Y; negative: from the last of Y
  operand y{};               ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &stack::x), parameter("axis", &stack::axis),
                           output("y", &stack::y));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<concatenate>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<stack>);
///@}

}  // namespace sluice
