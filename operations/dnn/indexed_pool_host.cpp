// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/indexed_pool_functions.hpp"
#include "operations/elementwise/f32_loops.hpp"
#include "operations/vector_targets.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace sluice::host {
namespace {

using namespace operations;

/// Windows with more taps are computed one by one, and so are lines of fewer windows.
constexpr std::int64_t max_taps = 256;
constexpr std::int64_t min_windows = 4;
/// The most windows of a line that are computed at once.
constexpr std::int64_t windows_of_block = 256;

/// The windows of a line in which a tap along the last axis is an element of x.
struct tap_windows {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t offset = 0;  ///< window `i` meets the element `i · step + offset`
};
tap_windows windows_with_tap(const pool_axis& axis, std::int64_t tap) noexcept {
  const auto offset = tap * axis.dilation - axis.before;
  const auto first = offset >= 0 ? 0 : (-offset - 1) / axis.step + 1;
  const auto last = offset >= axis.extent ? 0 : (axis.extent - 1 - offset) / axis.step + 1;
  return {first, std::min(last, axis.outputs), offset};
}

/// Whether lines of windows are computed at once.
bool has_lines(const indexed_pool_call& call) noexcept {
  const auto& width = call.axes[pool_call::max_axes - 1];
  std::int64_t taps = 1;
  for (const auto& axis : call.axes) {
    if (axis.step == pool_axis::adaptive || axis.window > max_taps) return false;
    taps *= axis.window;
  }
  return taps <= max_taps && width.outputs >= min_windows;
}

/// Computes lines of windows: tap by tap, each of many windows.
template <class Element>
class line_maxima {
 public:
  line_maxima(const indexed_pool_call& call, const indexed_pool_addresses& addresses)
      : call_(call), addresses_(addresses), width_(call.axes[pool_call::max_axes - 1]) {
    for (std::int64_t k = 0; k < width_.window; ++k) {
      columns_[static_cast<std::size_t>(k)] = windows_with_tap(width_, k);
    }
  }

  /// Computes all windows along the last axis from `window` on.
  void compute(const indexed_window& window) {
    find_lines(window);
    for (std::int64_t first = 0; first < width_.outputs; first += windows_of_block) {
      compute_block(window, first, std::min(windows_of_block, width_.outputs - first));
    }
  }

 private:
  using body = indexed_pool_body<Element>;
  /// f32 has all numbers of the other types.
  using number = std::conditional_t<std::is_same_v<Element, double>, double, float>;
  /// As wide as the numbers, for loops in vectors.
  using tap_number = std::conditional_t<sizeof(number) == 8, std::int64_t, std::int32_t>;
  static constexpr bool is_number = std::is_same_v<Element, number>;
  static constexpr tap_number none = -1;

  /// A line of x that the windows meet.
  struct line {
    const Element* x = nullptr;
    std::int64_t index = 0;  ///< of its first element
  };

  /// The numbers of a line from a column on.
  struct column_numbers {
    const number* first = nullptr;
    std::int64_t column = 0;
    std::int64_t stride = 0;
  };

  void find_lines(const indexed_window& window) {
    const auto& [depth, height, width] = call_.axes;
    const auto split = divide(window.plane, call_.channels);
    const auto* const plane = static_cast<const Element*>(addresses_.x) +
                              split.value * call_.image_stride +
                              split.remainder * call_.channel_stride;
    const auto first_index =
        call_.within_plane ? 0 : window.plane * depth.extent * height.extent * width.extent;
    const auto slices = taps_of(depth, window.outputs[0]);
    const auto rows = taps_of(height, window.outputs[1]);
    line_count_ = 0;
    for (auto i = slices.first; i < slices.last; ++i) {
      const auto z = slices.start + i * depth.dilation;
      for (auto j = rows.first; j < rows.last; ++j) {
        const auto row = rows.start + j * height.dilation;
        lines_[line_count_++] = {plane + z * depth.x_stride + row * height.x_stride,
                                 first_index + (z * height.extent + row) * width.extent};
      }
    }
  }

  void compute_block(const indexed_window& window, std::int64_t first, std::int64_t count) {
    std::fill_n(numbers_.begin(), count, static_cast<number>(body::lowest()));
    std::fill_n(taps_.begin(), count, none);
    for (std::size_t l = 0; l < line_count_; ++l) {
      if constexpr (is_number) {
        add_line(l, first, count, {lines_[l].x, 0, width_.x_stride});
      } else {
        const auto begin =
            std::clamp<std::int64_t>(first * width_.step - width_.before, 0, width_.extent);
        const auto end =
            std::clamp((first + count - 1) * width_.step - width_.before + width_.reach() + 1,
                       begin, width_.extent);
        convert(lines_[l].x + begin * width_.x_stride, end - begin);
        add_line(l, first, count, {converted_.data(), begin, 1});
      }
    }
    auto* const y = static_cast<Element*>(addresses_.y) + window.number + first;
    auto* const indices = addresses_.indices + window.number + first;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto tap = static_cast<std::int64_t>(taps_[static_cast<std::size_t>(i)]);
      if (tap < 0) {
        y[i] = body::lowest();
        indices[i] = -1;
        continue;
      }
      const auto& source = lines_[static_cast<std::size_t>(tap / width_.window)];
      const auto column = (first + i) * width_.step +
                          columns_[static_cast<std::size_t>(tap % width_.window)].offset;
      y[i] = source.x[column * width_.x_stride];
      indices[i] = source.index + column;
    }
  }
  /// Converts `count` elements of a line to numbers.
  void convert(const Element* x, std::int64_t count) {
    converted_.resize(static_cast<std::size_t>(count));
    if (width_.x_stride == 1) {
      return load_f32(call_.type, x, count, converted_.data());
    }
    for (std::int64_t i = 0; i < count; ++i) {
      converted_[static_cast<std::size_t>(i)] = static_cast<number>(x[i * width_.x_stride]);
    }
  }
  /// Adds the taps of a line to the windows of a block.
  void add_line(std::size_t number_of_line, std::int64_t first, std::int64_t count,
                const column_numbers& x) {
    for (std::int64_t k = 0; k < width_.window; ++k) {
      const auto& windows = columns_[static_cast<std::size_t>(k)];
      const auto begin = std::max(windows.first, first);
      const auto length = std::min(windows.last, first + count) - begin;
      if (length <= 0) continue;
      const auto tap =
          static_cast<tap_number>(static_cast<std::int64_t>(number_of_line) * width_.window + k);
      const auto* const source =
          x.first + (begin * width_.step + windows.offset - x.column) * x.stride;
      const auto place = static_cast<std::size_t>(begin - first);
      const auto step = width_.step * x.stride;
      const auto add = [&](auto constant_step) {
        add_tap(source, constant_step, length, tap, numbers_.data() + place, taps_.data() + place);
      };
      if (step == 1) {
        add(std::integral_constant<std::int64_t, 1>());
      } else if (step == 2) {
        add(std::integral_constant<std::int64_t, 2>());
      } else {
        add(step);
      }
    }
  }
  template <class Step>
  static void add_tap(const number* x, Step step, std::int64_t count, tap_number tap,
                      number* numbers, tap_number* taps) noexcept {
    SLUICE_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = x[i * step];
      const auto most = numbers[i];
      // As `indexed_pool_body::is_above`, without branches.
      const bool is_larger = (static_cast<int>(value > most) |
                              (static_cast<int>(value != value) & static_cast<int>(most == most)) |
                              static_cast<int>(taps[i] < 0)) != 0;
      numbers[i] = is_larger ? value : most;
      taps[i] = is_larger ? tap : taps[i];
    }
  }

  const indexed_pool_call& call_;
  const indexed_pool_addresses& addresses_;
  const pool_axis& width_;
  std::array<tap_windows, static_cast<std::size_t>(max_taps)> columns_;
  std::array<line, static_cast<std::size_t>(max_taps)> lines_;
  std::size_t line_count_ = 0;
  std::array<number, static_cast<std::size_t>(windows_of_block)> numbers_;
  /// Of the maxima, numbered along all lines.
  std::array<tap_number, static_cast<std::size_t>(windows_of_block)> taps_;
  std::vector<number> converted_;
};

template <class Element>
void compute(const indexed_pool_call& call, const indexed_pool_addresses& addresses,
             const indexed_pool_body<Element>& body) {
  if (has_lines(call)) {
    const auto length = call.axes[pool_call::max_axes - 1].outputs;
    const work_chunks chunks(call.count / length,
                             static_cast<double>(length) * (2 + most_taps(call)) + 50);
    return parallel_for(chunks.count(), [&](std::int64_t chunk) {
      const auto [begin, end] = chunks[chunk];
      line_maxima<Element> maxima(call, addresses);
      for (auto line = begin; line < end; ++line) {
        maxima.compute(indexed_window::make(call, line * length));
      }
    });
  }
  const work_chunks chunks(call.count, 5 + most_taps(call));
  parallel_for(chunks.count(), [&](std::int64_t chunk) {
    const auto [begin, end] = chunks[chunk];
    for (auto window = indexed_window::make(call, begin); window.number < end;
         window.advance(call)) {
      body(call, window);
    }
  });
}

}  // namespace

void compute_indexed_pool(const indexed_pool_call& call, const indexed_pool_addresses& addresses) {
  visit(call, addresses, [&](const auto& body) { compute(call, addresses, body); });
}

}  // namespace sluice::host
