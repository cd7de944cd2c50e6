// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <cstdint>
#include <cstring>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// What the plan of a sort depends on.
struct sort_key {
  std::int64_t workspace_bytes = 0;
};

/// The rows of x in order, or the beginnings of these.
struct sort_call {
  sort_key key{};
  map_layout<3> rows{};       ///< values, indices and x: the first element of each row
  std::int64_t strides[3]{};  ///< of values, indices and x along a row, in elements
  std::int64_t length = 0;    ///< elements of a row of x
  std::int64_t kept = 0;      ///< elements of a row of values and of indices; at least 1
  bool descending = false;

  [[nodiscard]] SLUICE_HOST_DEVICE storage type() const noexcept { return rows.types[2]; }
  [[nodiscard]] SLUICE_HOST_DEVICE int element_bytes() const noexcept;
  /// Whether an item of a row has 64 bits: an order of 32 bits and an index.
  [[nodiscard]] bool is_narrow() const noexcept {
    constexpr std::int64_t indices = 0xFFFFFFFF;  // the last one marks the end
    return element_bytes() <= 4 && length < indices;
  }
};

/// The addresses of a launch.
struct sort_addresses {
  void* values = nullptr;
  std::int64_t* indices = nullptr;
  const void* x = nullptr;
};

SLUICE_HOST_DEVICE inline int sort_call::element_bytes() const noexcept {
  switch (type()) {
    case storage::boolean:
    case storage::u8:
    case storage::i8:
      return 1;
    case storage::u16:
    case storage::i16:
    case storage::f16:
    case storage::bf16:
      return 2;
    case storage::i32:
    case storage::u32:
    case storage::f32:
      return 4;
    default:
      return 8;
  }
}

/// A number whose order is that of the elements of a real type: in 32 bits, or in 64 for types of
/// this size. NaN is the largest, and -0 equals 0.
[[nodiscard]] SLUICE_HOST_DEVICE inline std::uint64_t order_of(storage type, const void* x,
                                                               std::int64_t i) noexcept {
  constexpr std::uint32_t sign = 0x80000000U;
  constexpr std::uint64_t long_sign = std::uint64_t{1} << 63U;
  switch (type) {
    case storage::f16:
    case storage::bf16:
    case storage::f32: {
      const float value = load<float>(type, x, i) + 0.0F;  // -0 becomes 0
      if (value != value) return 0xFFFFFFFFU;
      const auto bits = sluice::detail::bits_of(value);
      return (bits & sign) != 0 ? ~bits : bits | sign;
    }
    case storage::f64: {
      const double value = element_at<double>(x, i) + 0.0;
      if (value != value) return ~std::uint64_t{0};
      std::uint64_t bits = 0;
      memcpy(&bits, &value, sizeof bits);
      return (bits & long_sign) != 0 ? ~bits : bits | long_sign;
    }
    case storage::u64:
      return element_at<std::uint64_t>(x, i);
    case storage::i64:
      return static_cast<std::uint64_t>(element_at<std::int64_t>(x, i)) ^ long_sign;
    case storage::u32:
      return element_at<std::uint32_t>(x, i);
    default:
      return static_cast<std::uint32_t>(load<std::int64_t>(type, x, i)) ^ sign;
  }
}

/// An element with its position, as sorting sees it. Items of a row are distinct, so their order
/// is the same however they are sorted.
///@{
struct narrow_item {
  std::uint64_t bits;

  [[nodiscard]] SLUICE_HOST_DEVICE static narrow_item make(std::uint64_t order, std::int64_t index,
                                                           bool descending) noexcept {
    const auto key = static_cast<std::uint32_t>(descending ? ~order : order);
    return {static_cast<std::uint64_t>(key) << 32U | static_cast<std::uint32_t>(index)};
  }
  /// An item behind all others.
  [[nodiscard]] SLUICE_HOST_DEVICE static narrow_item end() noexcept { return {~std::uint64_t{0}}; }
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t index() const noexcept {
    return static_cast<std::uint32_t>(bits);
  }
  [[nodiscard]] SLUICE_HOST_DEVICE bool operator<(const narrow_item& other) const noexcept {
    return bits < other.bits;
  }
};
struct alignas(16) wide_item {
  std::uint64_t position;
  std::uint64_t key;

  [[nodiscard]] SLUICE_HOST_DEVICE static wide_item make(std::uint64_t order, std::int64_t index,
                                                         bool descending) noexcept {
    return {static_cast<std::uint64_t>(index), descending ? ~order : order};
  }
  [[nodiscard]] SLUICE_HOST_DEVICE static wide_item end() noexcept {
    return {~std::uint64_t{0}, ~std::uint64_t{0}};
  }
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t index() const noexcept {
    return static_cast<std::int64_t>(position);
  }
  [[nodiscard]] SLUICE_HOST_DEVICE bool operator<(const wide_item& other) const noexcept {
    return key != other.key ? key < other.key : position < other.position;
  }
};
///@}

/// Writes element `i` of the results of a row, which is that of an item. `position` is that of the
/// row.
SLUICE_HOST_DEVICE inline void put_sorted(const sort_call& call, const sort_addresses& addresses,
                                          const map_position<3>& position, std::int64_t i,
                                          std::int64_t index) noexcept {
  put_element(addresses.indices, position.offsets[1] + i * call.strides[1], index);
  const auto source = position.offsets[2] + index * call.strides[2];
  const auto target = position.offsets[0] + i * call.strides[0];
  switch (call.element_bytes()) {
    case 1:
      return put_element(addresses.values, target, element_at<std::uint8_t>(addresses.x, source));
    case 2:
      return put_element(addresses.values, target, element_at<std::uint16_t>(addresses.x, source));
    case 4:
      return put_element(addresses.values, target, element_at<std::uint32_t>(addresses.x, source));
    default:
      return put_element(addresses.values, target, element_at<std::uint64_t>(addresses.x, source));
  }
}

/// How a GPU sorts: blocks of threads sort *tiles* of a row.
inline constexpr std::int64_t sorted_tile = 2048;

/// Whether each tile keeps the first items only: no other is among the first of the row.
[[nodiscard]] inline bool selects(const sort_call& call) noexcept {
  return call.kept <= sorted_tile / 2 && call.length > sorted_tile;
}
/// The items that remain of a row of `length` if its tiles keep `kept` of them.
[[nodiscard]] inline std::int64_t kept_by_tiles(std::int64_t length, std::int64_t kept) noexcept {
  const auto last = length % sorted_tile;
  return length / sorted_tile * kept + (last < kept ? last : kept);
}

}  // namespace sluice::operations
