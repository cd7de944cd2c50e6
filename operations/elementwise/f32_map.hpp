// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/f32_loops.hpp"
#include "operations/elementwise/storage.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sluice::host {

/// Computes a map in f32 by blocks, with the loops of f32_loops.hpp: converts a block of each input
/// to f32 without gaps, computes, and converts the result. Operands that are f32 without gaps are
/// computed where they are.
template <int Operands>
class f32_map {
 public:
  /// Stands for a function that returns its argument.
  struct conversion {};

  /// @param origin the positions of the first index
  f32_map(const operations::map_layout<Operands>& layout,
          const operations::map_position<Operands>& origin,
          const operations::map_addresses& addresses)
      : layout_(layout), origin_(origin), addresses_(addresses) {}

  /// Calls `function(inputs, count, y)` for each block, where `inputs` are `Operands - 1` pointers;
  /// nullptr stands for an input that is not given. With `conversion`, y is the input.
  template <class Function>
  void run(const Function& function) {
    const int last = layout_.rank - 1;
    const auto columns = layout_.shape[last];
    // Short rows are taken several at a time.
    const bool by_rows = last > 0 && columns < block / 4;
    const auto rows = by_rows ? layout_.shape[last - 1] : 1;
    const auto rows_at_once = by_rows ? block / columns : 1;
    auto first = origin_;
    std::array<std::int64_t, operations::max_dimensions> index{};
    while (true) {
      for (std::int64_t row = 0; row < rows; row += rows_at_once) {
        const auto height = std::min(rows_at_once, rows - row);
        const auto width_at_once = by_rows || all_direct<Function>() ? columns : block;
        for (std::int64_t column = 0; column < columns; column += width_at_once) {
          auto position = first;
          for (int k = 0; k < Operands; ++k) {
            if (by_rows) position.offsets[k] += row * layout_.strides[k][last - 1];
            position.offsets[k] += column * layout_.strides[k][last];
          }
          compute(position, height, std::min(width_at_once, columns - column), function);
        }
      }
      int d = last - (by_rows ? 2 : 1);
      for (; d >= 0; --d) {
        if (++index[static_cast<std::size_t>(d)] < layout_.shape[d]) break;
        index[static_cast<std::size_t>(d)] = 0;
        for (int k = 0; k < Operands; ++k) {
          first.offsets[k] -= (layout_.shape[d] - 1) * layout_.strides[k][d];
        }
      }
      if (d < 0) return;
      for (int k = 0; k < Operands; ++k) first.offsets[k] += layout_.strides[k][d];
    }
  }

 private:
  using storage = operations::storage;
  /// The elements of a block that is converted.
  static constexpr std::int64_t block = 1024;

  [[nodiscard]] const void* address_of(int k) const noexcept {
    return k == 0 ? addresses_.y : addresses_.inputs[k - 1];
  }
  [[nodiscard]] std::int64_t stride(int k, int from_last) const noexcept {
    return layout_.strides[k][layout_.rank - 1 - from_last];
  }
  /// Whether rows need no conversion to memory of this object.
  template <class Function>
  [[nodiscard]] bool all_direct() const noexcept {
    if constexpr (std::is_same_v<Function, conversion>) {
      return stride(0, 0) == 1 && stride(1, 0) == 1 &&
             (layout_.types[0] == storage::f32 || layout_.types[1] == storage::f32);
    }
    for (int k = 0; k < Operands; ++k) {
      if (address_of(k) == nullptr) continue;
      if (layout_.types[k] != storage::f32 || stride(k, 0) != 1) return false;
    }
    return true;
  }
  /// Whether the elements of a block have no gaps.
  [[nodiscard]] bool has_no_gaps(int k, std::int64_t height, std::int64_t width) const noexcept {
    return (width == 1 || stride(k, 0) == 1) && (height == 1 || stride(k, 1) == width);
  }
  [[nodiscard]] static std::int64_t bytes_of(storage type) noexcept {
    return operations::bytes_of(type);
  }

  [[nodiscard]] const void* packed(int k, std::int64_t position) const noexcept {
    return static_cast<const std::byte*>(address_of(k)) + position * bytes_of(layout_.types[k]);
  }

  template <class Function>
  void compute(const operations::map_position<Operands>& position, std::int64_t height,
               std::int64_t width, const Function& function) {
    const auto count = height * width;
    const bool result_is_packed = has_no_gaps(0, height, width);
    void* const result =
        static_cast<std::byte*>(addresses_.y) + position.offsets[0] * bytes_of(layout_.types[0]);
    const bool result_is_direct = result_is_packed && layout_.types[0] == storage::f32;
    float* const target = result_is_direct ? static_cast<float*>(result) : results_.data();
    const float* y = target;
    if constexpr (std::is_same_v<Function, conversion>) {
      if (result_is_direct && has_no_gaps(1, height, width)) {
        return load_f32(layout_.types[1], packed(1, position.offsets[1]), count, target);
      }
      y = input(1, position.offsets[1], height, width);
      if (result_is_direct) return store_f32(storage::f32, y, count, target);
    } else {
      std::array<const float*, Operands - 1> inputs{};
      for (int k = 1; k < Operands; ++k) {
        inputs[static_cast<std::size_t>(k - 1)] = input(k, position.offsets[k], height, width);
      }
      function(inputs, count, target);
      if (result_is_direct) return;
    }
    if (result_is_packed) return store_f32(layout_.types[0], y, count, result);
    for (std::int64_t i = 0; i < height; ++i) {
      for (std::int64_t j = 0; j < width; ++j) {
        const auto offset =
            position.offsets[0] + (height == 1 ? 0 : i * stride(0, 1)) + j * stride(0, 0);
        operations::store<operations::overflow::saturates>(layout_.types[0], addresses_.y, offset,
                                                           y[i * width + j]);
      }
    }
  }

  /// A block of an input as f32 without gaps.
  const float* input(int k, std::int64_t position, std::int64_t height, std::int64_t width) {
    const void* const memory = address_of(k);
    if (memory == nullptr) return nullptr;
    const auto type = layout_.types[k];
    const auto count = height * width;
    auto& slot = slots_[static_cast<std::size_t>(k - 1)];
    if (has_no_gaps(k, height, width)) {
      const void* const source = packed(k, position);
      if (type == storage::f32) return static_cast<const float*>(source);
      load_f32(type, source, count, slot.values.data());
      slot.count = 0;
      return slot.values.data();
    }
    // An input that is repeated is the same in the next block.
    if (slot.position == position && count <= slot.count) return slot.values.data();
    for (std::int64_t i = 0; i < height; ++i) {
      load_row(k, position + (height == 1 ? 0 : i * stride(k, 1)), width,
               slot.values.data() + i * width);
    }
    slot.position = position;
    slot.count = count;
    return slot.values.data();
  }

  /// A row of an input, whose elements may be repeated or have gaps.
  void load_row(int k, std::int64_t position, std::int64_t width, float* target) const {
    const void* const memory = address_of(k);
    const auto type = layout_.types[k];
    const auto step = stride(k, 0);
    if (step == 0) {
      std::fill_n(target, width, operations::load<float>(type, memory, position));
    } else if (step == 1) {
      load_f32(type, packed(k, position), width, target);
    } else {
      for (std::int64_t j = 0; j < width; ++j) {
        target[j] = operations::load<float>(type, memory, position + j * step);
      }
    }
  }

  struct kept_block {
    std::int64_t position = 0;
    std::int64_t count = 0;  ///< 0: nothing is kept
    std::array<float, block> values;
  };

  const operations::map_layout<Operands>& layout_;
  const operations::map_position<Operands>& origin_;
  const operations::map_addresses& addresses_;
  std::array<kept_block, Operands - 1> slots_;
  std::array<float, block> results_;
};

}  // namespace sluice::host
