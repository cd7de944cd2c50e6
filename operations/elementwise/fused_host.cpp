// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/fused_map.hpp"
#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/map_functions.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::host {
namespace {

using namespace operations;

/// The memory of all values of a block, in bytes; it stays in the first cache.
constexpr std::size_t block_bytes = std::size_t{32} << 10U;
/// The indices of a block, if their values fit.
constexpr std::int64_t max_block = 4096;
constexpr std::int64_t block_multiple = 16;
constexpr std::size_t line_bytes = 64;
static_assert(block_bytes / fused_map::max_bytes >= block_multiple);

/// Computes a part of a fused map in blocks of indices: each function for a whole block, with the
/// loops that compute it alone.
class block_runner {
 public:
  using layout_type = fused_map::layout_type;
  using position_type = map_position<fused_map::operands>;

  block_runner(const fused_map& map, const layout_type& part, std::span<void* const> addresses)
      : map_(map),
        part_(part),
        addresses_(addresses),
        block_(std::min(max_block, static_cast<std::int64_t>(block_bytes / map.bytes) /
                                       block_multiple * block_multiple)) {}

  void run(const position_type& origin) {
    const int last = part_.rank - 1;
    const auto columns = part_.shape[last];
    // Short rows are taken several at a time.
    const bool by_rows = last > 0 && columns < block_ / 4;
    const auto rows = by_rows ? part_.shape[last - 1] : 1;
    const auto rows_at_once = by_rows ? block_ / columns : 1;
    const auto width_at_once = by_rows ? columns : block_;
    const auto visit = [&](const position_type& first) {
      for (std::int64_t row = 0; row < rows; row += rows_at_once) {
        const auto height = std::min(rows_at_once, rows - row);
        for (std::int64_t column = 0; column < columns; column += width_at_once) {
          auto position = first;
          for (int k = 0; k < fused_map::operands; ++k) {
            if (by_rows) position.offsets[k] += row * part_.strides[k][last - 1];
            position.offsets[k] += column * part_.strides[k][last];
          }
          compute(position, height, std::min(width_at_once, columns - column));
        }
      }
    };
    auto outer = part_;
    outer.rank = last - (by_rows ? 1 : 0);
    if (outer.rank == 0) return visit(origin);
    for_each_position(outer, origin, visit);
  }

 private:
  [[nodiscard]] std::int64_t stride(std::size_t k, int from_last) const noexcept {
    return part_.strides[k][part_.rank - 1 - from_last];
  }
  [[nodiscard]] bool has_no_gaps(std::size_t k, std::int64_t height,
                                 std::int64_t width) const noexcept {
    return (width == 1 || stride(k, 0) == 1) && (height == 1 || stride(k, 1) == width);
  }
  [[nodiscard]] std::byte* slot(std::size_t value) noexcept {
    return memory_.data() + map_.places[value] * static_cast<std::size_t>(block_);
  }
  [[nodiscard]] std::byte* address(std::size_t operand, std::int64_t offset) const noexcept {
    return static_cast<std::byte*>(addresses_[operand]) + offset * bytes_of(part_.types[operand]);
  }

  /// Calls `copy(index in the block, offset of the element)` for all indices of a block.
  template <class Copy>
  void for_each_index(std::size_t k, std::int64_t offset, std::int64_t height, std::int64_t width,
                      const Copy& copy) const {
    for (std::int64_t i = 0; i < height; ++i) {
      const auto first = offset + (height == 1 ? 0 : i * stride(k, 1));
      for (std::int64_t j = 0; j < width; ++j) copy(i * width + j, first + j * stride(k, 0));
    }
  }

  /// A block of an input, without gaps.
  const void* input(std::size_t value, const position_type& position, std::int64_t height,
                    std::int64_t width) {
    const auto operand = value + 1;
    const auto offset = position.offsets[operand];
    if (has_no_gaps(operand, height, width)) return address(operand, offset);
    auto& kept = kept_[value];
    auto* const target = slot(value);
    // An input that is repeated is the same in the next block.
    if (kept.offset == offset && height * width <= kept.count) return target;
    (void)visiting::with_bits(part_.types[operand], [&](auto bits) {
      using element = decltype(bits);
      if (stride(operand, 0) == 0 && (height == 1 || stride(operand, 1) == 0)) {
        std::fill_n(reinterpret_cast<element*>(target), height * width,
                    element_at<element>(addresses_[operand], offset));
        return 0;
      }
      for_each_index(operand, offset, height, width, [&](std::int64_t i, std::int64_t from) {
        put_element(target, i, element_at<element>(addresses_[operand], from));
      });
      return 0;
    });
    kept = {offset, height * width};
    return target;
  }

  /// Brings a part of the memory near that is used after the next function: the next block of each
  /// input and this block of the result. Otherwise the processor would wait for each block.
  // Inlined, or the compiler takes it for a function without effect and drops the calls.
  __attribute__((always_inline)) void fetch_ahead(std::size_t function,
                                                  const position_type& position, std::int64_t count,
                                                  unsigned direct) const noexcept {
    const auto functions = map_.functions.size();
    for (std::size_t k = 0; k <= map_.inputs; ++k) {
      if ((direct >> k & 1U) == 0) continue;
      const auto bytes = static_cast<std::size_t>(count * bytes_of(part_.types[k]));
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

  void compute(const position_type& position, std::int64_t height, std::int64_t width) {
    const auto count = height * width;
    unsigned direct = 0;
    for (std::size_t k = 0; k <= map_.inputs; ++k) {
      if (has_no_gaps(k, height, width)) direct |= 1U << k;
    }
    std::array<const void*, fused_map::max_inputs + fused_map::max_functions> values;
    for (std::size_t k = 0; k < map_.inputs; ++k) values[k] = input(k, position, height, width);
    const bool is_direct = has_no_gaps(0, height, width);
    for (std::size_t i = 0; i < map_.functions.size(); ++i) {
      const auto& function = map_.functions[i];
      const auto value = map_.inputs + i;
      const bool is_last = i + 1 == map_.functions.size();
      fetch_ahead(i, position, count, direct);
      map_addresses addresses;
      addresses.y = is_last && is_direct ? address(0, position.offsets[0]) : slot(value);
      for (std::size_t k = 0; k < function.arguments.size(); ++k) {
        const auto argument = function.arguments[k];
        if (argument != fused_map::none) addresses.inputs[k] = values[argument];
      }
      std::visit(
          [&](auto call) {
            call.layout.count = call.layout.shape[0] = count;
            if constexpr (requires { call.number; }) addresses = call.with_number(addresses);
            compute_map(call, addresses);
          },
          function.call);
      values[value] = addresses.y;
    }
    if (is_direct) return;
    const auto* const results = slot(map_.inputs + map_.functions.size() - 1);
    (void)visiting::with_bits(part_.types[0], [&](auto bits) {
      for_each_index(0, position.offsets[0], height, width,
                     [&](std::int64_t i, std::int64_t element) {
                       put_element(addresses_[0], element, element_at<decltype(bits)>(results, i));
                     });
      return 0;
    });
  }

  struct kept_block {
    std::int64_t offset = 0;
    std::int64_t count = 0;  ///< 0: nothing is kept
  };

  const fused_map& map_;
  const layout_type& part_;
  std::span<void* const> addresses_;
  std::int64_t block_;
  std::array<kept_block, fused_map::max_inputs> kept_{};
  alignas(64) std::array<std::byte, block_bytes> memory_;
};

}  // namespace

void compute_fused(const fused_map& map, std::span<void* const> addresses) {
  // Of an index on one thread: the operands in memory, and each function.
  const map_cost cost{.nanoseconds = 0.5 + 0.5 * static_cast<double>(map.functions.size()),
                      .least = 4 * max_block};
  for_each_part(
      map.layout, cost,
      [&](const fused_map::layout_type& part, const map_position<fused_map::operands>& origin) {
        block_runner(map, part, addresses).run(origin);
      });
}

}  // namespace sluice::host
