// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/pool_functions.hpp"
#include "operations/dnn/pool_loops.hpp"
#include "operations/dnn/row_loops.hpp"
#include "operations/elementwise/arithmetic.hpp"
#include "operations/elementwise/f32_loops.hpp"
#include "operations/elementwise/host_loop.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

namespace sluice::host {
namespace {

using namespace operations;

/// Some rows of numbers, `distance` apart.
template <class T>
struct pool_rows {
  const T* x;
  std::int64_t distance;
  std::int64_t rows;
};

/// What a window is reduced to. Elements are of type `element` and f32 is reduced in vectors.
///@{
template <class T>
struct window_maximum {
  using element = T;
  using value = T;
  static constexpr value identity = -std::numeric_limits<T>::infinity();

  [[nodiscard]] value term(T x) const { return x; }
  [[nodiscard]] value combine(value a, value b) const { return larger(a, b); }
  [[nodiscard]] T finish(value total, std::int64_t, T) const { return total; }
  /// totals[i] = its combination with element i of all rows.
  void add_rows(const pool_rows<T>& rows, std::int64_t count, value* totals) const {
    if constexpr (std::is_same_v<T, float>) {
      max_rows_f32({rows.x, rows.distance, rows.rows}, count, totals);
    } else {
      for (std::int64_t row = 0; row < rows.rows; ++row) {
        combine_each(rows.x + row * rows.distance, count, totals);
      }
    }
  }
  void combine_each(const value* other, std::int64_t count, value* totals) const {
    if constexpr (std::is_same_v<T, float>) {
      binary_f32(binary_function::maximum, totals, other, count, totals);
    } else {
      for (std::int64_t i = 0; i < count; ++i) totals[i] = larger(totals[i], other[i]);
    }
  }
};
template <class T>
struct window_sum {
  using element = T;
  using value = double;
  static constexpr value identity = 0;

  window_kind kind;
  std::int64_t p;  // 1 for averages, 2 for responses
  double alpha;
  double beta;
  double bias;

  [[nodiscard]] value term(T x) const {
    const auto number = static_cast<double>(x);
    if (kind == window_kind::average) return number;
    if (p == 1) return std::abs(number);
    return p == 2 ? number * number : std::pow(std::abs(number), static_cast<double>(p));
  }
  [[nodiscard]] value combine(value a, value b) const { return a + b; }
  /// The result of a window with `counted` taps. `x` is the element at its position.
  [[nodiscard]] T finish(value total, std::int64_t counted, T x) const {
    if (kind == window_kind::average) return static_cast<T>(total / static_cast<double>(counted));
    if (kind == window_kind::response) {
      const double base = bias + alpha * total;
      // The usual power, without the call of `pow`.
      const double divisor =
          beta == 0.75 ? std::sqrt(base) * std::sqrt(std::sqrt(base)) : std::pow(base, beta);
      return static_cast<T>(static_cast<double>(x) / divisor);
    }
    if (p == 1) return static_cast<T>(total);
    return static_cast<T>(p == 2 ? std::sqrt(total)
                                 : std::pow(total, 1.0 / static_cast<double>(p)));
  }
  /// y[i] = the result of a window with the total i and `counted` taps, at whose position is y[i].
  void finish_each(const value* totals, std::int64_t count, std::int64_t counted, T* y) const {
    if constexpr (std::is_same_v<T, float>) {
      if (kind == window_kind::average || p == 1) {
        const double factor =
            kind == window_kind::average ? 1.0 / static_cast<double>(counted) : 1.0;
        return scale_f64(totals, count, factor, y);
      }
    }
    for (std::int64_t i = 0; i < count; ++i) y[i] = finish(totals[i], counted, y[i]);
  }
  void add_rows(const pool_rows<T>& rows, std::int64_t count, value* totals) const {
    if constexpr (std::is_same_v<T, float>) {
      if (p <= 2) {
        const auto term = kind == window_kind::average ? sum_term::number
                          : p == 1                     ? sum_term::magnitude
                                                       : sum_term::square;
        return sum_rows_f32(term, {rows.x, rows.distance, rows.rows}, count, totals);
      }
    }
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      const T* const x = rows.x + row * rows.distance;
      for (std::int64_t i = 0; i < count; ++i) totals[i] += term(x[i]);
    }
  }
  void combine_each(const value* other, std::int64_t count, value* totals) const {
    add_f64(other, count, totals);
  }
};
///@}

/// How the windows of a pool are divided: into lines, which are some neighbouring windows along the
/// last axis. The windows of a line share the sums or extrema of columns. A position along the last
/// axis is a pixel, of all inner planes if these lie side by side.
struct pool_lines {
  std::int64_t pixel = 1;    ///< elements
  std::int64_t outputs = 1;  ///< of a line
  bool has_columns = false;  ///< otherwise each window is computed alone
};
[[nodiscard]] pool_lines pool_lines_of(const pool_call& call) {
  constexpr std::int64_t wanted_elements = 1 << 14;
  if (!call.shares_columns()) return {};
  const auto& axis = call.axes[2];
  // Long windows have as many neighbours as elements, so that each column serves many of them.
  const auto beside = std::max(wanted_elements / call.pixel() - axis.reach() - 1, axis.reach());
  return {.pixel = call.pixel(),
          .outputs = std::clamp<std::int64_t>(beside / axis.step + 1, 1, axis.outputs),
          .has_columns = true};
}

/// Computes lines one after the other.
template <class Reducer>
class pool_computation {
 public:
  pool_computation(const pool_call& call, const Reducer& reducer, const pool_lines& layout,
                   const void* x, void* y)
      : call_(call),
        reducer_(reducer),
        layout_(layout),
        x_(x),
        y_(y),
        x_is_flat_(is_flat(last_axis().x_stride, call.planes[1].x_stride)),
        y_is_flat_(is_flat(last_axis().y_stride, call.planes[1].y_stride)),
        has_short_windows_(has_short_windows()) {}

  /// Computes a line. The offsets are those of y, of the planes of x, and the indices of the line's
  /// first window along each axis.
  void compute(const map_position<5>& line) {
    const pool_taps taps[] = {taps_of(call_.axes[0], line.offsets[2]),
                              taps_of(call_.axes[1], line.offsets[3])};
    const auto first = line.offsets[4];
    const auto outputs = std::min(layout_.outputs, last_axis().outputs - first);
    if (has_short_windows_ && taps[0].last - taps[0].first == 1 && taps[1].last > taps[1].first) {
      return compute_short_windows(line, taps, outputs);
    }
    const auto counted = counted_taps(call_.axes[0], taps[0], call_.counts_padding) *
                         counted_taps(call_.axes[1], taps[1], call_.counts_padding);
    if (!layout_.has_columns) return compute_window(line, taps, counted);
    reduce_columns(taps, line.offsets[1], first * last_axis().step - last_axis().before,
                   (outputs - 1) * last_axis().step + last_axis().reach() + 1);
    combine_columns(outputs);
    const T* const results = finish(line, outputs, counted);
    store_line(results, outputs, line.offsets[0]);
  }

 private:
  using T = typename Reducer::element;
  using value = typename Reducer::value;

  [[nodiscard]] const pool_axis& last_axis() const { return call_.axes[2]; }
  [[nodiscard]] bool is_flat(std::int64_t stride, std::int64_t plane_stride) const {
    return stride == layout_.pixel && (layout_.pixel == 1 || plane_stride == 1);
  }
  template <class U>
  static U* memory(std::vector<U>& numbers, std::int64_t count) {
    if (numbers.size() < static_cast<std::size_t>(count)) {
      numbers.resize(static_cast<std::size_t>(count));
    }
    return numbers.data();
  }
  [[nodiscard]] std::int64_t offset_of(int axis, const pool_taps& taps, std::int64_t tap) const {
    return (taps.start + tap * call_.axes[axis].dilation) * call_.axes[axis].x_stride;
  }

  /// Whether vectors of neighbouring windows are reduced without the extrema of columns.
  [[nodiscard]] bool has_short_windows() const {
    constexpr std::int64_t longest = 4;
    if constexpr (!std::is_same_v<Reducer, window_maximum<float>>) return false;
    const auto& axis = last_axis();
    if (!layout_.has_columns) return false;
    const bool has_loop = axis.step == 1 || (axis.step == 2 && axis.window % 2 == 0);
    return has_loop && call_.type == storage::f32 && layout_.pixel == 1 && x_is_flat_ &&
           y_is_flat_ && axis.dilation == 1 && axis.window <= longest;
  }
  void compute_short_windows(const map_position<5>& line, const pool_taps (&taps)[2],
                             std::int64_t outputs) {
    const auto& axis = last_axis();
    const auto begin = line.offsets[4];
    const auto end = begin + outputs;
    // The windows without padding along the last axis.
    const auto first = std::clamp((axis.before + axis.step - 1) / axis.step, begin, end);
    const auto last =
        axis.extent + axis.before < axis.window
            ? first
            : std::clamp((axis.extent + axis.before - axis.window) / axis.step + 1, first, end);
    for (auto i = begin; i < end; ++i) {
      if (i == first && last > first) {
        const auto row = line.offsets[1] + offset_of(0, taps[0], taps[0].first) +
                         offset_of(1, taps[1], taps[1].first);
        max_windows_f32(
            {static_cast<const float*>(x_) + row + first * axis.step - axis.before,
             call_.axes[1].dilation * call_.axes[1].x_stride, taps[1].last - taps[1].first},
            {.count = last - first, .window = axis.window, .step = axis.step},
            static_cast<float*>(y_) + line.offsets[0] + first - begin);
        i = last - 1;
        continue;
      }
      auto window = line;
      window.offsets[0] += i - begin;
      window.offsets[4] = i;
      compute_window(window, taps, 1);
    }
  }

  void compute_window(const map_position<5>& window, const pool_taps (&taps)[2],
                      std::int64_t counted) {
    const auto last = taps_of(last_axis(), window.offsets[4]);
    auto total = Reducer::identity;
    for (auto i = taps[0].first; i < taps[0].last; ++i) {
      for (auto j = taps[1].first; j < taps[1].last; ++j) {
        const auto row = window.offsets[1] + offset_of(0, taps[0], i) + offset_of(1, taps[1], j);
        for (auto k = last.first; k < last.last; ++k) {
          const auto x = load<T>(call_.type, x_, row + offset_of(2, last, k));
          total = reducer_.combine(total, reducer_.term(x));
        }
      }
    }
    const auto all = counted * counted_taps(last_axis(), last, call_.counts_padding);
    const bool has_centre = call_.kind == window_kind::response;
    const T centre = has_centre ? load<T>(call_.type, x_, centre_of(window)) : T(0);
    store<overflow::saturates>(call_.type, y_, window.offsets[0],
                               reducer_.finish(total, all, centre));
  }

  /// Reduces the elements at each position from `start` on, of all rows of a window.
  void reduce_columns(const pool_taps (&taps)[2], std::int64_t plane, std::int64_t start,
                      std::int64_t positions) {
    value* const totals = memory(columns_, positions * layout_.pixel);
    std::fill_n(totals, positions * layout_.pixel, Reducer::identity);
    const auto begin = std::max<std::int64_t>(start, 0);
    const auto end = std::min(start + positions, last_axis().extent);
    const auto rows = taps[1].last - taps[1].first;
    if (begin >= end || rows <= 0) return;
    for (auto i = taps[0].first; i < taps[0].last; ++i) {
      add_rows(plane + offset_of(0, taps[0], i) + offset_of(1, taps[1], taps[1].first) +
                   begin * last_axis().x_stride,
               rows, end - begin, totals + (begin - start) * layout_.pixel);
    }
  }
  void add_rows(std::int64_t offset, std::int64_t rows, std::int64_t positions, value* totals) {
    constexpr auto direct = std::is_same_v<T, float> ? storage::f32 : storage::f64;
    const auto distance = call_.axes[1].dilation * call_.axes[1].x_stride;
    const auto count = positions * layout_.pixel;
    if (x_is_flat_ && call_.type == direct) {
      return reducer_.add_rows({static_cast<const T*>(x_) + offset, distance, rows}, count, totals);
    }
    T* const row = memory(row_, count);
    for (std::int64_t i = 0; i < rows; ++i) {
      load_row(offset + i * distance, positions, row);
      reducer_.add_rows({row, 0, 1}, count, totals);
    }
  }
  void load_row(std::int64_t offset, std::int64_t positions, T* row) const {
    if constexpr (std::is_same_v<T, float>) {
      if (x_is_flat_) {
        const auto* const source = static_cast<const std::byte*>(x_) + offset * bytes_of_element();
        return load_f32(call_.type, source, positions * layout_.pixel, row);
      }
    }
    for (std::int64_t i = 0; i < positions; ++i) {
      for (std::int64_t k = 0; k < layout_.pixel; ++k) {
        *row++ = load<T>(call_.type, x_,
                         offset + i * last_axis().x_stride + k * call_.planes[1].x_stride);
      }
    }
  }

  /// Combines the columns of each window.
  void combine_columns(std::int64_t outputs) {
    const auto& axis = last_axis();
    const auto count = outputs * layout_.pixel;
    value* const results = memory(results_, count);
    // Taps `period` apart begin at the same position modulo the step, so that their columns lie
    // side by side once every column number `step` is gathered.
    const auto period = std::min(axis.step / std::gcd(axis.step, axis.dilation), axis.window);
    for (std::int64_t first = 0; first < period; ++first) {
      const auto last = first + (axis.window - 1 - first) / period * period;
      const auto* const columns = gather_columns(first * axis.dilation % axis.step,
                                                 outputs + last * axis.dilation / axis.step);
      for (auto tap = first; tap <= last; tap += period) {
        const auto* const tap_columns = columns + tap * axis.dilation / axis.step * layout_.pixel;
        if (tap == 0) {
          std::copy_n(tap_columns, count, results);
        } else {
          reducer_.combine_each(tap_columns, count, results);
        }
      }
    }
  }
  /// Every column number `step` from `first` on.
  const value* gather_columns(std::int64_t first, std::int64_t count) {
    const auto step = last_axis().step;
    const value* source = columns_.data() + first * layout_.pixel;
    if (step == 1) return source;
    value* target = memory(gathered_, count * layout_.pixel);
    if (layout_.pixel == 1) {
      if (step == 2) {
        every_second(source, count, target);
        return target;
      }
      for (std::int64_t i = 0; i < count; ++i) target[i] = source[i * step];
      return target;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      std::copy_n(source + i * step * layout_.pixel, layout_.pixel, target + i * layout_.pixel);
    }
    return target;
  }

  /// The element of x at the position of a window of a response.
  [[nodiscard]] std::int64_t centre_of(const map_position<5>& window) const {
    auto offset = window.offsets[1];
    for (int i = 0; i < 3; ++i) offset += window.offsets[2 + i] * call_.axes[i].x_stride;
    return offset;
  }
  /// The results of a line, whose taps along the other axes count as `counted`.
  const T* finish(const map_position<5>& line, std::int64_t outputs, std::int64_t counted) {
    if constexpr (std::is_same_v<Reducer, window_maximum<T>>) {
      return results_.data();
    } else {
      T* const finished = memory(row_, outputs * layout_.pixel);
      if (call_.kind == window_kind::response) load_row(centre_of(line), outputs, finished);
      count_taps(line.offsets[4], outputs);
      for (std::int64_t i = 0; i < outputs; ++i) {
        // Neighbouring windows with equal counts at once.
        const auto begin = i;
        const auto taps = counts_[static_cast<std::size_t>(i)];
        while (i + 1 < outputs && counts_[static_cast<std::size_t>(i + 1)] == taps) ++i;
        reducer_.finish_each(results_.data() + begin * layout_.pixel,
                             (i + 1 - begin) * layout_.pixel, counted * taps,
                             finished + begin * layout_.pixel);
      }
      return finished;
    }
  }
  /// The counted taps along the last axis, which most lines share.
  void count_taps(std::int64_t first, std::int64_t outputs) {
    if (counted_from_ == first) return;
    counted_from_ = first;
    auto* const counts = memory(counts_, outputs);
    for (std::int64_t i = 0; i < outputs; ++i) {
      counts[i] = counted_taps(last_axis(), taps_of(last_axis(), first + i), call_.counts_padding);
    }
  }

  void store_line(const T* results, std::int64_t outputs, std::int64_t offset) {
    if (y_is_flat_) {
      auto* const target = static_cast<std::byte*>(y_) + offset * bytes_of_element();
      if constexpr (std::is_same_v<T, float>) {
        store_f32(call_.type, results, outputs * layout_.pixel, target);
      } else {
        std::copy_n(results, outputs * layout_.pixel, reinterpret_cast<double*>(target));
      }
      return;
    }
    for (std::int64_t i = 0; i < outputs; ++i) {
      for (std::int64_t k = 0; k < layout_.pixel; ++k) {
        store<overflow::saturates>(call_.type, y_,
                                   offset + i * last_axis().y_stride + k * call_.planes[1].y_stride,
                                   *results++);
      }
    }
  }
  [[nodiscard]] std::int64_t bytes_of_element() const {
    switch (call_.type) {
      case storage::u8:
      case storage::i8:
        return 1;
      case storage::f32:
        return 4;
      case storage::f64:
        return 8;
      default:
        return 2;
    }
  }

  const pool_call& call_;
  const Reducer& reducer_;
  const pool_lines& layout_;
  const void* x_;
  void* y_;
  bool x_is_flat_;
  bool y_is_flat_;
  bool has_short_windows_;
  std::vector<value> columns_;
  std::vector<value> gathered_;
  std::vector<value> results_;
  std::vector<T> row_;
  std::vector<std::int64_t> counts_;
  std::int64_t counted_from_ = -1;
};

template <class Reducer>
void compute_pool_lines(const pool_call& call, const Reducer& reducer, const void* x, void* y) {
  const auto lines = pool_lines_of(call);
  const bool has_planes = lines.pixel == 1;
  const auto& last = call.axes[2];
  // Operands: y, the planes of x, and the indices along the axes.
  map_layout<5> layout;
  layout.rank = 0;
  layout.count = 1;
  const auto add = [&](std::int64_t extent, std::int64_t y_stride, std::int64_t x_stride, int axis,
                       std::int64_t index_stride) {
    layout.shape[layout.rank] = extent;
    layout.strides[0][layout.rank] = y_stride;
    layout.strides[1][layout.rank] = x_stride;
    if (axis >= 0) layout.strides[2 + axis][layout.rank] = index_stride;
    layout.count *= extent;
    ++layout.rank;
  };
  for (int i = 0; i < (has_planes ? 2 : 1); ++i) {
    add(call.planes[i].count, call.planes[i].y_stride, call.planes[i].x_stride, -1, 0);
  }
  for (int i = 0; i < 2; ++i) add(call.axes[i].outputs, call.axes[i].y_stride, 0, i, 1);
  add((last.outputs - 1) / lines.outputs + 1, lines.outputs * last.y_stride, 0, 2, lines.outputs);

  double taps = 1;  // of a window, along the first axes
  for (int i = 0; i < 2; ++i) {
    taps *= static_cast<double>(std::min(call.axes[i].window, call.axes[i].extent));
  }
  const auto outputs = static_cast<double>(lines.outputs * lines.pixel);
  const auto window = static_cast<double>(std::min(last.window, last.extent));
  const double nanoseconds =
      lines.has_columns
          ? outputs * (0.3 * taps * static_cast<double>(last.step) + 0.3 * window + 1) + 50
          : 2 * taps * window;
  for_each_part(layout, {.nanoseconds = nanoseconds, .least = 1},
                [&](const map_layout<5>& part, const map_position<5>& origin) {
                  pool_computation<Reducer> computation(call, reducer, lines, x, y);
                  for_each_position(part, origin, [&](const map_position<5>& line) {
                    computation.compute(line);
                  });
                });
}

template <class T>
void compute_pool_in(const pool_call& call, const void* x, void* y) {
  if (call.kind == window_kind::maximum) {
    return compute_pool_lines(call, window_maximum<T>(), x, y);
  }
  const std::int64_t p = call.kind == window_kind::average    ? 1
                         : call.kind == window_kind::response ? 2
                                                              : call.p;
  compute_pool_lines(call, window_sum<T>{call.kind, p, call.alpha, call.beta, call.bias}, x, y);
}

}  // namespace

void compute_pool(const pool_call& call, const void* x, void* y) {
  if (call.type == storage::f64) return compute_pool_in<double>(call, x, y);
  compute_pool_in<float>(call, x, y);
}

}  // namespace sluice::host
