// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/fused_chain.hpp"
#include "operations/elementwise/fused_map.hpp"
#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/map_functions.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::host {

using fused_position = operations::map_position<operations::fused_map::operands>;
/// By operand, in elements.
using fused_strides = std::array<std::int64_t, operations::fused_map::operands>;

/// The indices of a block, if their values fit.
inline constexpr std::int64_t max_fused_block = 4096;

/// The strides of a dimension of a layout.
[[nodiscard]] inline fused_strides strides_along(const operations::fused_map::layout_type& layout,
                                                 int dimension) noexcept {
  fused_strides strides{};
  for (std::size_t k = 0; k < strides.size(); ++k) strides[k] = layout.strides[k][dimension];
  return strides;
}
/// The position `distance` indices further along a dimension with these strides.
[[nodiscard]] inline fused_position moved(fused_position position, const fused_strides& strides,
                                          std::int64_t distance) noexcept {
  for (std::size_t k = 0; k < strides.size(); ++k) position.offsets[k] += distance * strides[k];
  return position;
}

/// Computes the functions of a fused map for blocks of indices: functions of few instructions
/// together, in registers, and each other one for a whole block, with the loops that compute it
/// alone. A block has rows and columns, whose strides are those of two dimensions. Its values stay
/// in the first cache.
class block_evaluator {
 public:
  /// @param functions the parts of `map`
  /// @param is_streamed whether functions in registers store last values past the caches; see
  ///     `finish_streams`
  block_evaluator(const operations::fused_map& map, std::span<const fused_part> functions,
                  std::span<void* const> addresses, const fused_strides& row_strides,
                  const fused_strides& column_strides, bool is_streamed = false)
      : map_(map),
        functions_(functions),
        addresses_(addresses),
        rows_(row_strides),
        columns_(column_strides),
        is_streamed_(is_streamed && !functions.back().steps.empty()),
        block_(size_for(map)) {}

  /// The most indices of a block of a map.
  [[nodiscard]] static std::int64_t size_for(const operations::fused_map& map) noexcept {
    return std::min(max_fused_block, static_cast<std::int64_t>(block_bytes / map.bytes) /
                                         block_multiple * block_multiple);
  }
  /// The most indices of a block.
  [[nodiscard]] std::int64_t size() const noexcept { return block_; }
  /// Whether an operand lies without gaps in the order of a block.
  [[nodiscard]] bool has_no_gaps(std::size_t k, std::int64_t height,
                                 std::int64_t width) const noexcept {
    return (width == 1 || columns_[k] == 1) && (height == 1 || rows_[k] == width);
  }
  [[nodiscard]] std::byte* address(std::size_t operand, std::int64_t offset) const noexcept {
    return static_cast<std::byte*>(addresses_[operand]) +
           offset * operations::bytes_of(map_.layout.types[operand]);
  }
  /// Calls `copy(index in the block, offset of the element)` for all indices of a block.
  template <class Copy>
  void for_each_index(std::size_t k, std::int64_t offset, std::int64_t height, std::int64_t width,
                      const Copy& copy) const {
    for (std::int64_t i = 0; i < height; ++i) {
      const auto first = offset + (height == 1 ? 0 : i * rows_[k]);
      for (std::int64_t j = 0; j < width; ++j) copy(i * width + j, first + j * columns_[k]);
    }
  }

  /// Computes the block at `position`, of at most `size()` indices. The last value of each index is
  /// written to `target`, without gaps; nullptr: to the memory of the evaluator.
  /// @return where the last values are, until the next block
  const void* evaluate(const fused_position& position, std::int64_t height, std::int64_t width,
                       void* target = nullptr) {
    using operations::fused_map;
    const auto count = height * width;
    // A result past the caches would be brought near in vain.
    unsigned direct = target != nullptr && !is_streamed_ ? 1U : 0U;
    for (std::size_t k = 1; k <= map_.inputs; ++k) {
      if (has_no_gaps(k, height, width)) direct |= 1U << k;
    }
    value_addresses values;
    for (std::size_t k = 0; k < map_.inputs; ++k) {
      values[k] = const_cast<void*>(input(k, position, height, width));
    }
    for (std::size_t i = 0; i < map_.functions.size(); ++i) {
      const bool is_last = i + 1 == map_.functions.size();
      const auto value = map_.inputs + i;
      values[value] = is_last && target != nullptr ? target : slot(value);
    }
    for (const auto& functions : functions_) {
      if (functions.steps.empty()) {
        fetch_ahead(functions.first, position, count, direct);
        compute_function(functions.first, values, count);
      } else {
        compute_steps(functions, values, count);
      }
    }
    return values[map_.inputs + map_.functions.size() - 1];
  }

 private:
  /// The memory of all values of a block, in bytes; it stays in the first cache.
  static constexpr std::size_t block_bytes = std::size_t{32} << 10U;
  static constexpr std::int64_t block_multiple = 16;
  static constexpr std::size_t line_bytes = 64;
  static_assert(block_bytes / operations::fused_map::max_bytes >= block_multiple);

  struct kept_block {
    std::int64_t offset = 0;
    std::int64_t width = 0;
    std::int64_t count = 0;  ///< 0: nothing is kept
  };

  using value_addresses =
      std::array<void*, operations::fused_map::max_inputs + operations::fused_map::max_functions>;

  /// Computes a function for a block.
  void compute_function(std::size_t i, const value_addresses& values, std::int64_t count) const {
    const auto& function = map_.functions[i];
    operations::map_addresses addresses;
    addresses.y = values[map_.inputs + i];
    for (std::size_t k = 0; k < function.arguments.size(); ++k) {
      const auto argument = function.arguments[k];
      if (argument != operations::fused_map::none) addresses.inputs[k] = values[argument];
    }
    std::visit(
        [&](auto call) {
          call.layout.count = call.layout.shape[0] = count;
          if constexpr (requires { call.number; }) addresses = call.with_number(addresses);
          compute_map(call, addresses);
        },
        function.call);
  }
  /// Computes functions in registers for a block.
  void compute_steps(const fused_part& functions, const value_addresses& values,
                     std::int64_t count) {
    const auto address_of = [&](std::uint8_t value) {
      return value == operations::fused_map::none ? nullptr : static_cast<float*>(values[value]);
    };
    steps_.clear();
    for (const auto& [step, a, b, y] : functions.steps) {
      auto& next = steps_.emplace_back(step);
      next.a = address_of(a);
      next.b = address_of(b);
      next.y = address_of(y);
      next.is_streamed =
          is_streamed_ && next.y != nullptr && y == map_.inputs + map_.functions.size() - 1;
    }
    compute_chain(steps_, count);
  }

  [[nodiscard]] std::byte* slot(std::size_t value) noexcept {
    return memory_.data() + map_.places[value] * static_cast<std::size_t>(block_);
  }

  /// A block of an input, without gaps.
  const void* input(std::size_t value, const fused_position& position, std::int64_t height,
                    std::int64_t width) {
    using operations::element_at;
    using operations::put_element;
    const auto operand = value + 1;
    const auto offset = position.offsets[operand];
    if (has_no_gaps(operand, height, width)) return address(operand, offset);
    auto& kept = kept_[value];
    auto* const target = slot(value);
    // An input that is repeated is the same in the next block.
    if (kept.offset == offset && kept.width == width && height * width <= kept.count) return target;
    (void)operations::visiting::with_bits(map_.layout.types[operand], [&](auto bits) {
      using element = decltype(bits);
      if (columns_[operand] == 0 && (height == 1 || rows_[operand] == 0)) {
        std::fill_n(reinterpret_cast<element*>(target), height * width,
                    element_at<element>(addresses_[operand], offset));
        return 0;
      }
      for_each_index(operand, offset, height, width, [&](std::int64_t i, std::int64_t index) {
        put_element(target, i, element_at<element>(addresses_[operand], index));
      });
      return 0;
    });
    kept = {offset, width, height * width};
    return target;
  }

  /// Brings a part of the memory near that is used after the next function: the next block of each
  /// input and this block of the result. Otherwise the processor would wait for each block.
  // Inlined, or the compiler takes it for a function without effect and drops the calls.
  __attribute__((always_inline)) void fetch_ahead(std::size_t function,
                                                  const fused_position& position,
                                                  std::int64_t count,
                                                  unsigned direct) const noexcept {
    const auto functions = map_.functions.size();
    for (std::size_t k = 0; k <= map_.inputs; ++k) {
      if ((direct >> k & 1U) == 0) continue;
      const auto bytes =
          static_cast<std::size_t>(count * operations::bytes_of(map_.layout.types[k]));
      const auto* const first = address(k, position.offsets[k]) + (k == 0 ? 0 : bytes);
      const auto end = bytes * (function + 1) / functions;
      for (auto i = bytes * function / functions; i < end; i += line_bytes) {
        if (k == 0) {
          __builtin_prefetch(first + i, 1);
        } else {
          __builtin_prefetch(first + i, 0);
        }
      }
    }
  }

  const operations::fused_map& map_;
  std::span<const fused_part> functions_;
  std::span<void* const> addresses_;
  fused_strides rows_;
  fused_strides columns_;
  bool is_streamed_;
  std::int64_t block_;
  std::array<kept_block, operations::fused_map::max_inputs> kept_{};
  std::vector<f32_step> steps_{};
  alignas(64) std::array<std::byte, block_bytes> memory_;
};

/// The strides of the rows and of the columns of the blocks into which `for_each_block` cuts.
///@{
[[nodiscard]] inline fused_strides row_strides(const operations::fused_map::layout_type& layout) {
  return layout.rank == 1 ? fused_strides{} : strides_along(layout, layout.rank - 2);
}
[[nodiscard]] inline fused_strides column_strides(
    const operations::fused_map::layout_type& layout) {
  return strides_along(layout, layout.rank - 1);
}
///@}

/// Cuts the indices of a layout into blocks of at most `size` along its last two dimensions, in
/// order, and calls `visit(position, height, width)` with the first position of each.
template <class Visit>
void for_each_block(const operations::fused_map::layout_type& layout, const fused_position& origin,
                    std::int64_t size, const Visit& visit) {
  const int last = layout.rank - 1;
  const auto columns = layout.shape[last];
  // Short rows are taken several at a time.
  const bool by_rows = last > 0 && columns < size / 4;
  const auto rows = by_rows ? layout.shape[last - 1] : 1;
  const auto rows_at_once = by_rows ? size / columns : 1;
  const auto width_at_once = by_rows ? columns : size;
  const auto along_rows = row_strides(layout);
  const auto along_columns = column_strides(layout);
  const auto visit_plane = [&](const fused_position& first) {
    for (std::int64_t row = 0; row < rows; row += rows_at_once) {
      const auto height = std::min(rows_at_once, rows - row);
      const auto line = moved(first, along_rows, row);
      for (std::int64_t column = 0; column < columns; column += width_at_once) {
        visit(moved(line, along_columns, column), height,
              std::min(width_at_once, columns - column));
      }
    }
  };
  auto outer = layout;
  outer.rank = last - (by_rows ? 1 : 0);
  if (outer.rank == 0) return visit_plane(origin);
  for_each_position(outer, origin, visit_plane);
}

}  // namespace sluice::host
