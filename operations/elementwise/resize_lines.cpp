// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/resize_lines.hpp"

#include "operations/elementwise/f32_loops.hpp"
#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/resize_weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::host {
namespace {

using namespace operations;

constexpr std::size_t at(std::int64_t i) noexcept {
  return static_cast<std::size_t>(i);
}

/// How a result is divided into lines. Numbers that lie side by side in x and y, the channels of
/// images, are a pixel.
template <int Axes>
struct resize_lines {
  int axis = 0;                ///< along which the lines lie
  std::int64_t pixel = 1;      ///< elements
  std::int64_t y_stride = 0;   ///< between pixels of a line
  map_layout<2 + Axes> all{};  ///< the lines: the layout without their dimensions
};

template <int Axes>
resize_lines<Axes> lines_of(const std::array<resize_axis, Axes>& axes,
                            const map_layout<2 + Axes>& layout) {
  resize_lines<Axes> lines;
  for (int i = 1; i < Axes; ++i) {
    if (axes[at(i)].stride <= axes[at(lines.axis)].stride) lines.axis = i;
  }
  const auto is_axis = [&](int d) {
    for (int i = 0; i < Axes; ++i) {
      if (layout.strides[2 + i][d] != 0) return true;
    }
    return false;
  };
  lines.all = layout;
  lines.all.rank = 0;
  for (int d = 0; d < layout.rank; ++d) {
    if (layout.strides[2 + lines.axis][d] != 0) {
      lines.y_stride = layout.strides[0][d];
      lines.all.count /= layout.shape[d];
    } else if (!is_axis(d) && layout.strides[0][d] == 1 && layout.strides[1][d] == 1 &&
               axes[at(lines.axis)].stride != 1) {
      lines.pixel = layout.shape[d];
      lines.all.count /= layout.shape[d];
    } else {
      const int target = lines.all.rank++;
      lines.all.shape[target] = layout.shape[d];
      for (int k = 0; k < 2 + Axes; ++k) {
        lines.all.strides[k][target] = layout.strides[k][d];
      }
    }
  }
  if (lines.all.rank == 0) {
    lines.all.rank = 1;
    lines.all.shape[0] = 1;
    for (auto& strides : lines.all.strides) strides[0] = 0;
  }
  return lines;
}

/// y[i] += weight · x[i], or y[i] = weight · x[i].
template <class T>
void add_scaled(const T* x, std::int64_t count, T weight, bool is_first, T* y) {
  if (is_first) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = weight * x[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i] += weight * x[i];
  }
}

/// Computes lines one after the other.
template <class T, int Axes>
class line_computation {
 public:
  line_computation(const resize_body<T, Axes>& body, const resize_axis& axis,
                   const resize_lines<Axes>& lines, const map_layout<2 + Axes>& layout,
                   const std::array<resize_weights<T>, Axes>& weights)
      : body_(body),
        axis_(axis),
        lines_(lines),
        types_{layout.types[0], layout.types[1]},
        weights_(weights),
        columns_(weights[at(lines.axis)]),
        row_(at(columns_.span() * lines.pixel)),
        sum_(row_.size()),
        line_(at(axis_.result * lines.pixel)) {}

  void compute(const map_position<2 + Axes>& position) {
    if (is_cropped(position)) {
      std::fill(line_.begin(), line_.end(), body_.extrapolation);
    } else {
      is_first_ = true;
      if (columns_.span() > 0) add_rows<0>(position, position.offsets[1], T(1));
      add_columns();
    }
    if (types_[0] == storage::u8 || types_[0] == storage::i8) {
      for (auto& value : line_) value = std::rint(value);
    }
    store_line(position.offsets[0]);
  }

 private:
  [[nodiscard]] bool is_cropped(const map_position<2 + Axes>& position) const {
    for (int i = 0; i < Axes; ++i) {
      if (i != lines_.axis && weights_[at(i)].count(position.offsets[2 + i]) == 0) return true;
    }
    return false;
  }

  /// Adds the rows around the line, along all axes from `Axis` on but that of the line.
  template <int Axis>
  void add_rows(const map_position<2 + Axes>& position, std::int64_t offset, T weight) {
    if constexpr (Axis == Axes) {
      add_row(offset + columns_.begin() * axis_.stride, weight);
    } else if (Axis == lines_.axis) {
      add_rows<Axis + 1>(position, offset, weight);
    } else {
      const auto& rows = weights_[at(Axis)];
      const auto index = position.offsets[2 + Axis];
      const T* const factors = rows.weights(index);
      for (std::int64_t k = 0; k < rows.count(index); ++k) {
        if (factors[k] == 0) continue;
        add_rows<Axis + 1>(position, offset + (rows.first(index) + k) * body_.axes[Axis].stride,
                           weight * factors[k]);
      }
    }
  }
  void add_row(std::int64_t offset, T weight) {
    T* const row = is_first_ && weight == 1 ? sum_.data() : row_.data();
    load_row(offset, row);
    if (row != sum_.data()) {
      add_scaled(row, static_cast<std::int64_t>(row_.size()), weight, is_first_, sum_.data());
    }
    is_first_ = false;
  }
  void load_row(std::int64_t offset, T* row) const {
    if constexpr (std::is_same_v<T, float>) {
      if (axis_.stride == lines_.pixel || columns_.span() == 1) {
        const auto* const source =
            static_cast<const std::byte*>(body_.addresses.inputs[0]) + offset * bytes_of(types_[1]);
        return load_f32(types_[1], source, static_cast<std::int64_t>(row_.size()), row);
      }
    }
    for (std::int64_t i = 0; i < columns_.span(); ++i) {
      for (std::int64_t c = 0; c < lines_.pixel; ++c) {
        *row++ = load<T>(types_[1], body_.addresses.inputs[0], offset + i * axis_.stride + c);
      }
    }
  }

  /// Adds the columns around each pixel of the line.
  void add_columns() {
    switch (lines_.pixel) {
      case 1:
        return add_columns_of(std::integral_constant<std::int64_t, 1>());
      case 3:
        return add_columns_of(std::integral_constant<std::int64_t, 3>());
      case 4:
        return add_columns_of(std::integral_constant<std::int64_t, 4>());
      default:
        return add_columns_of(lines_.pixel);
    }
  }
  template <class Pixel>
  void add_columns_of(Pixel pixel) {
    T* target = line_.data();
    for (std::int64_t i = 0; i < axis_.result; ++i, target += pixel) {
      const auto count = columns_.count(i);
      if (count == 0) {  // there may be no columns at all
        std::fill_n(target, static_cast<std::int64_t>(pixel), body_.extrapolation);
        continue;
      }
      const T* const factors = columns_.weights(i);
      const T* source = sum_.data() + (columns_.first(i) - columns_.begin()) * pixel;
      bool has_terms = false;
      for (std::int64_t k = 0; k < count; ++k, source += pixel) {
        const T factor = factors[k];
        if (factor == 0) continue;
        if (has_terms) {
          for (std::int64_t c = 0; c < pixel; ++c) target[c] += factor * source[c];
        } else {
          for (std::int64_t c = 0; c < pixel; ++c) target[c] = factor * source[c];
        }
        has_terms = true;
      }
    }
  }

  void store_line(std::int64_t offset) const {
    const T* value = line_.data();
    if constexpr (std::is_same_v<T, float>) {
      if (lines_.y_stride == lines_.pixel || axis_.result == 1) {
        auto* const target =
            static_cast<std::byte*>(body_.addresses.y) + offset * bytes_of(types_[0]);
        return store_f32(types_[0], value, static_cast<std::int64_t>(line_.size()), target);
      }
    }
    for (std::int64_t i = 0; i < axis_.result; ++i) {
      for (std::int64_t c = 0; c < lines_.pixel; ++c) {
        store<overflow::saturates>(types_[0], body_.addresses.y, offset + i * lines_.y_stride + c,
                                   *value++);
      }
    }
  }

  const resize_body<T, Axes>& body_;
  const resize_axis& axis_;  ///< along which the lines lie
  const resize_lines<Axes>& lines_;
  storage types_[2];
  const std::array<resize_weights<T>, Axes>& weights_;
  const resize_weights<T>& columns_;
  std::vector<T> row_;
  std::vector<T> sum_;
  std::vector<T> line_;
  bool is_first_ = true;
};

template <class T, int Axes, std::size_t... I>
std::array<resize_weights<T>, Axes> weights_of_axes(const resize_body<T, Axes>& body,
                                                    std::index_sequence<I...>) {
  return {resize_weights<T>(body.axes[I], body.filter)...};
}

}  // namespace

template <class T, int Axes>
bool resize_by_lines(const resize_body<T, Axes>& body, const map_layout<2 + Axes>& layout) {
  std::array<resize_axis, Axes> axes;
  std::copy_n(body.axes, Axes, axes.begin());
  const auto lines = lines_of<Axes>(axes, layout);
  const auto& axis = axes[at(lines.axis)];
  // In numbers; their product may overflow.
  constexpr double most = 1 << 24;
  const auto pixel = static_cast<double>(lines.pixel);
  if (static_cast<double>(axis.extent) * pixel > most) return false;
  if (static_cast<double>(axis.result) * pixel > most) return false;
  double taps = 1;
  double taps_of_rows = 1;
  for (const auto& each : axes) {
    const double along = most_taps(each, body.filter);
    if (static_cast<double>(each.result) * along > most) return false;
    taps *= along;
    if (&each != &axis) taps_of_rows *= along;
  }
  const auto weights = weights_of_axes(body, std::make_index_sequence<Axes>());
  const double nanoseconds =
      pixel * (0.4 * taps_of_rows * static_cast<double>(axis.extent) +
               static_cast<double>(axis.result) * (1 + taps / taps_of_rows)) +
      20;
  for_each_part(lines.all, {.nanoseconds = nanoseconds, .least = 1},
                [&](const map_layout<2 + Axes>& part, const map_position<2 + Axes>& origin) {
                  line_computation<T, Axes> computation(body, axis, lines, layout, weights);
                  for_each_position(part, origin, [&](const map_position<2 + Axes>& line) {
                    computation.compute(line);
                  });
                });
  return true;
}

template bool resize_by_lines(const resize_body<float, 1>&, const map_layout<3>&);
template bool resize_by_lines(const resize_body<float, 2>&, const map_layout<4>&);
template bool resize_by_lines(const resize_body<float, 3>&, const map_layout<5>&);
template bool resize_by_lines(const resize_body<double, 1>&, const map_layout<3>&);
template bool resize_by_lines(const resize_body<double, 2>&, const map_layout<4>&);
template bool resize_by_lines(const resize_body<double, 3>&, const map_layout<5>&);

}  // namespace sluice::host
