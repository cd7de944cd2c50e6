// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/arithmetic.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cstdint>
#include <type_traits>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// What the plan of a cumulative sum or product depends on.
struct cumulative_key {
  std::int64_t workspace_bytes = 0;
};

/// Sums or products of the elements up to each one, in rows along one dimension.
struct cumulative_call {
  cumulative_key key{};
  map_layout<2> rows{};       ///< y, x: the rows, without the dimension itself
  std::int64_t first[2]{};    ///< from the position of a row to its first element, y and x
  std::int64_t strides[2]{};  ///< along a row, y and x; negative from the last element to the first
  std::int64_t length = 0;    ///< of a row
  bool is_product = false;
  bool is_exclusive = false;
  std::int32_t lanes = 1;        ///< threads of a part: a power of two up to 32, or 256
  std::int64_t parts = 1;        ///< parts of each row; three passes if there are several
  std::int64_t part_length = 0;  ///< elements of each part but the last one
};

/// Elements of type `Element` in memory, and sums or products of them in the type `value`.
template <class Element>
struct accumulation {
  using element = Element;
  using value =
      std::conditional_t<is_complex_v<Element> && !std::is_same_v<Element, f16> &&
                             !std::is_same_v<Element, bf16>,
                         complex_number<double>,
                         std::conditional_t<std::is_integral_v<Element>, std::uint64_t, double>>;
  bool is_product;

  [[nodiscard]] SLUICE_HOST_DEVICE value identity() const noexcept {
    if constexpr (is_complex_v<value>) {
      return {is_product ? 1.0 : 0.0, 0.0};
    } else {
      return is_product ? value(1) : value(0);
    }
  }
  [[nodiscard]] SLUICE_HOST_DEVICE value combine(value a, value b) const noexcept {
    return is_product ? product(a, b) : sum(a, b);
  }
  [[nodiscard]] SLUICE_HOST_DEVICE static value value_of(Element x) noexcept {
    if constexpr (is_complex_v<value>) {
      return {static_cast<double>(x.real), static_cast<double>(x.imaginary)};
    } else if constexpr (std::is_integral_v<Element>) {
      return x;
    } else if constexpr (sizeof(Element) == 2) {
      return static_cast<double>(static_cast<float>(x));
    } else {
      return static_cast<double>(x);
    }
  }
  [[nodiscard]] SLUICE_HOST_DEVICE static Element element_of(value x) noexcept {
    if constexpr (is_complex_v<value>) {
      using part = typename Element::value_type;
      return {static_cast<part>(x.real), static_cast<part>(x.imaginary)};
    } else if constexpr (!std::is_integral_v<Element> && sizeof(Element) == 2) {
      return Element(rounded_to_odd(x));
    } else {
      return static_cast<Element>(x);
    }
  }
};

/// Calls `run` with the accumulation of a call. Integers of one size share it, because their sums
/// and products have the same bits with and without a sign.
template <class Run>
int visit(const cumulative_call& call, const Run& run) {
  switch (call.rows.types[1]) {
    case storage::boolean:
    case storage::e4m3:
    case storage::e5m2:
      return 0;
    case storage::u8:
    case storage::i8:
      return run(accumulation<std::uint8_t>{call.is_product});
    case storage::u16:
    case storage::i16:
      return run(accumulation<std::uint16_t>{call.is_product});
    case storage::i32:
    case storage::u32:
      return run(accumulation<std::uint32_t>{call.is_product});
    case storage::i64:
    case storage::u64:
      return run(accumulation<std::uint64_t>{call.is_product});
    case storage::f16:
      return run(accumulation<f16>{call.is_product});
    case storage::bf16:
      return run(accumulation<bf16>{call.is_product});
    case storage::f32:
      return run(accumulation<float>{call.is_product});
    case storage::f64:
      return run(accumulation<double>{call.is_product});
    case storage::c64:
      return run(accumulation<complex_number<float>>{call.is_product});
    case storage::c128:
      return run(accumulation<complex_number<double>>{call.is_product});
  }
  return 0;
}

}  // namespace sluice::operations
