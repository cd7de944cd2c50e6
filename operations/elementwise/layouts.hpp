// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/core/memory_order.hpp"
#include "operations/elementwise/element_number.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <sluice/operations/inference.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

// From the operands of an operation to the layout of a map.
namespace sluice::operations {

/// The element type as kernels see it.
[[nodiscard]] constexpr storage storage_of(element_type type) noexcept {
  return static_cast<storage>(type);
}
static_assert(storage_of(element_type::boolean) == storage::boolean &&
              storage_of(element_type::u64) == storage::u64 &&
              storage_of(element_type::e4m3) == storage::e4m3 &&
              storage_of(element_type::f16) == storage::f16 &&
              storage_of(element_type::f64) == storage::f64 &&
              storage_of(element_type::c128) == storage::c128);

[[nodiscard]] constexpr bool is_complex(element_type type) noexcept {
  return type == element_type::c64 || type == element_type::c128;
}
/// Whether elements are numbers of 8 bits, with which only `scaled_gemm` computes.
[[nodiscard]] constexpr bool is_float8(element_type type) noexcept {
  return type == element_type::e4m3 || type == element_type::e5m2;
}
/// A type of floating-point numbers to compute with.
[[nodiscard]] constexpr bool is_floating_point(element_type type) noexcept {
  return type >= element_type::f16 && type <= element_type::f64;
}
[[nodiscard]] constexpr bool is_real(element_type type) noexcept {
  return type == element_type::f32 || type == element_type::f64;
}
/// The real type of the parts of a complex type.
[[nodiscard]] constexpr element_type part_of(element_type type) noexcept {
  return type == element_type::c64 ? element_type::f32 : element_type::f64;
}

/// Refuses an operand of another type than `type`, which is the type of `model`.
void require_same_type(const inference& inference, const operand& operand, const tensor_spec& s,
                       element_type type, std::string_view model);

/// Refuses an operand of a type that operations only move and convert.
void require_arithmetic(const inference& inference, const operand& operand, element_type type);

/// One of two inputs of equal types, if it is a number.
struct number_input {
  bool a = false;          ///< whether the first one is
  bool b = false;          ///< whether the second one is
  tensor_spec spec{};      ///< of a tensor with this one element
  element_number value{};  ///< `input` is 0 or 1
};
/// The number among two inputs, as an element of the type of the other one. Refuses two numbers,
/// and one that the type does not hold.
[[nodiscard]] number_input require_number(const inference& inference, const operand_or_number& a,
                                          const operand_or_number& b);

/// The strides of `s` along the dimensions of `shape`, to which it is broadcast: 0 where it is
/// repeated. Refuses an operand that cannot be broadcast.
[[nodiscard]] extents broadcast_strides(const inference& inference, const operand& operand,
                                        const tensor_spec& s, const extents& shape);

/// The common shape of two operands, as in NumPy. Refuses `operand`, of the shape `b`, if there is
/// none.
[[nodiscard]] extents common_shape(const inference& inference, const operand& operand,
                                   const extents& a, const extents& b);

/// The dimension that `axis` names, counted from the last one if it is negative.
/// @throws error `invalid_argument` with the name `name` if there is none
[[nodiscard]] std::size_t dimension_of(std::string_view name, std::int64_t axis, std::size_t rank);

/// Dimensions with the strides of several operands.
struct strided_dimensions {
  static constexpr std::size_t max_operands = 9;
  std::array<std::int64_t, extents::max_rank> shape{};
  std::array<std::array<std::int64_t, extents::max_rank>, max_operands> strides{};
  std::size_t rank = 0;
  std::int64_t count = 1;
};

/// Orders dimensions by falling strides of the first operand, and merges those that one stride
/// leads through for all operands. At least one dimension remains.
[[nodiscard]] strided_dimensions merged(const extents& shape, const extents* strides,
                                        std::size_t operands);

/// The layout of a map over `shape`. Each operand has a stride for each dimension.
template <std::size_t Operands>
[[nodiscard]] map_layout<static_cast<int>(Operands)> make_layout(
    const extents& shape, const std::array<extents, Operands>& strides,
    const std::array<element_type, Operands>& types) {
  const auto dimensions = merged(shape, strides.data(), Operands);
  map_layout<static_cast<int>(Operands)> layout;
  layout.count = dimensions.count;
  layout.rank = static_cast<std::int32_t>(dimensions.rank);
  for (std::size_t k = 0; k < Operands; ++k) layout.types[k] = storage_of(types[k]);
  for (std::size_t d = 0; d < dimensions.rank; ++d) {
    layout.shape[d] = dimensions.shape[d];
    for (std::size_t k = 0; k < Operands; ++k) layout.strides[k][d] = dimensions.strides[k][d];
  }
  return layout;
}

/// The smallest stride of an operand of a layout; large if there is none.
template <int Operands>
[[nodiscard]] std::int64_t smallest_stride(const map_layout<Operands>& layout, int operand) {
  auto smallest = std::numeric_limits<std::int64_t>::max();
  for (int d = 0; d < layout.rank; ++d) {
    if (layout.shape[d] > 1) smallest = std::min(smallest, layout.strides[operand][d]);
  }
  return smallest;
}

}  // namespace sluice::operations
