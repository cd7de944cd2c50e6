// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/normalize_functions.hpp"
#include "operations/dnn/normalize_parts.hpp"
#include "operations/dnn/row_loops.hpp"
#include "operations/dnn/softmax_columns.hpp"
#include "operations/dnn/typed_row_loops.hpp"
#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/streamed_stores.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace sluice::host {
namespace {

using namespace operations;

/// The dimensions of a call from `first` to before `last`.
map_layout<3> layout_of(const normalize_call& call, int first, int last) {
  map_layout<3> layout;
  layout.rank = last - first;
  layout.count = 1;
  for (int d = 0; d < layout.rank; ++d) {
    layout.shape[d] = call.shape[first + d];
    layout.count *= layout.shape[d];
    for (int k = 0; k < 3; ++k) layout.strides[k][d] = call.strides[k][first + d];
  }
  return layout;
}

/// Whether rows have gaps and lie side by side: their elements with the same index are neighbours.
bool lie_beside(const normalize_call& call) noexcept {
  const auto last = call.row_rank - 1;
  return !has_flat_rows(call) && call.strides[0][last] == 1 && call.strides[1][last] == 1;
}

/// The most rows that lie side by side and are computed at once, in `T`: the elements of as many
/// rows at one index fill some cache lines.
template <class T>
constexpr auto most_beside = static_cast<std::int64_t>(256 / sizeof(T));

/// The rows with gaps that are computed at once, if they lie side by side and fit into the cache.
template <class T>
std::int64_t rows_beside(const normalize_call& call) noexcept {
  constexpr std::int64_t cached = std::int64_t{1} << 18U;
  return std::clamp<std::int64_t>(cached / std::max<std::int64_t>(call.count, 1), 1,
                                  most_beside<T>);
}

/// Computes rows one after the other, in `T`. Rows that have gaps or are of another type are
/// converted to rows of `T`.
template <class T>
class row_computation {
 public:
  row_computation(const normalize_call& call, const map_layout<3>& elements,
                  const normalize_addresses& addresses)
      : call_(call),
        elements_(elements),
        addresses_(addresses),
        is_flat_(has_flat_rows(call)),
        lie_beside_(lie_beside(call)),
        streams_(is_direct() && call.count >= least_streamed && addresses.y != addresses.x &&
                 is_streamed(call.rows * call.count * static_cast<std::int64_t>(sizeof(T)))) {
    std::int64_t step = 1;
    for (int d = elements.rank - 1; d >= 0; --d) {
      is_beside_ = is_beside_ && elements.strides[2][d] == step;
      step *= elements.shape[d];
    }
    const int last = elements.rank - 1;
    repetitions_ = elements.strides[2][last] == 0 ? elements.shape[last] : 1;
  }

  /// Computes the rows of one line of a layout of rows, of which `line` is the first.
  void compute_line(const map_layout<3>& rows, const map_position<3>& line) {
    const int last = rows.rank - 1;
    const auto count = rows.shape[last];
    const auto step = [&](int operand) {
      return rows.strides[operand][last];
    };
    const auto group = lie_beside_ ? rows_beside<T>(call_) : 1;
    auto row = line;
    for (std::int64_t i = 0; i < count; i += group) {
      const auto rest = std::min(group, count - i);
      if (rest == 1) {
        compute(row);
      } else {
        compute_beside(row, rest, step(2));
      }
      for (int k = 0; k < 3; ++k) row.offsets[k] += group * step(k);
    }
  }
  /// Called after the last line.
  void finish() const {
    if (streams_) finish_streams();
  }

 private:
  using loops = row_loops<T>;
  /// Parameters as `T`, from their position on.
  struct kept_row {
    std::int64_t offset = -1;
    std::vector<T> values;
  };
  /// The elements of a row that is stored past the caches: shorter rows gain nothing.
  static constexpr std::int64_t least_streamed = 2048;

  /// Some elements of rows that lie side by side: a cache line of each row. Written one by one, the
  /// elements of many rows would lie on as many pages.
  struct beside_tile {
    static constexpr auto height = static_cast<std::int64_t>(64 / sizeof(T));
    std::array<T, static_cast<std::size_t>(height* most_beside<T>)> elements;

    /// Element `i` of each row.
    [[nodiscard]] T* line(std::int64_t i) noexcept { return elements.data() + i * most_beside<T>; }
    void copy_to_row(std::int64_t k, std::int64_t count, T* row) noexcept {
      for (std::int64_t i = 0; i < count; ++i) row[i] = line(i)[k];
    }
    void copy_from_row(std::int64_t k, std::int64_t count, const T* row) noexcept {
      for (std::int64_t i = 0; i < count; ++i) line(i)[k] = row[i];
    }
  };

  void compute(const map_position<3>& row) {
    const T* const x = input_row(row.offsets[1]);
    T* const y = is_direct() ? static_cast<T*>(addresses_.y) + row.offsets[0] : memory(results_);
    compute_row(x, y, row.offsets[2]);
    if (!is_direct()) write_row(y, row.offsets[0]);
  }
  /// Computes `count` rows, of which `first` is the first. In X and in Y, the elements of the rows
  /// with the same index lie side by side; the parameters lie `parameter_step` elements apart.
  void compute_beside(const map_position<3>& first, std::int64_t count,
                      std::int64_t parameter_step) {
    // Rows at equal places of the cache would displace each other.
    const auto pitch = call_.count + static_cast<std::int64_t>(64 / sizeof(T));
    inputs_.resize(static_cast<std::size_t>(pitch * count));
    beside_tile tile;
    std::int64_t begin = 0;  // the element of a row that is the first line of the tile
    std::int64_t lines = 0;  // of the tile
    const auto move_tile = [&] {
      for (std::int64_t k = 0; k < count; ++k) {
        tile.copy_to_row(k, lines, inputs_.data() + k * pitch + begin);
      }
      begin += std::exchange(lines, 0);
    };
    for_each_position(elements_, [&](const map_position<3>& element) {
      loops::load_flat(call_.type, address_in(addresses_.x, first.offsets[1] + element.offsets[1]),
                       count, tile.line(lines));
      if (++lines == beside_tile::height) move_tile();
    });
    move_tile();
    for (std::int64_t k = 0; k < count; ++k) {
      T* const row = inputs_.data() + k * pitch;
      compute_row(row, row, first.offsets[2] + k * parameter_step);
    }
    std::int64_t number = 0;  // of an element
    for_each_position(elements_, [&](const map_position<3>& element) {
      const auto line = number % beside_tile::height;
      if (line == 0) {
        const auto rest = std::min(beside_tile::height, call_.count - number);
        for (std::int64_t k = 0; k < count; ++k) {
          tile.copy_from_row(k, rest, inputs_.data() + k * pitch + number);
        }
      }
      ++number;
      loops::store_flat(
          call_.type, tile.line(line), count,
          const_cast<std::byte*>(address_in(addresses_.y, first.offsets[0] + element.offsets[0])));
    });
  }
  /// @param offset that of the parameters
  void compute_row(const T* x, T* y, std::int64_t offset) {
    row_map<T> map;
    map.is_streamed = streams_;
    const T* source = x;
    switch (call_.kind) {
      case normalization::softmax:
        map.factor = static_cast<T>(1.0 / loops::exponentials(x, call_.count, largest(x), y));
        map.is_streamed = false;
        source = y;
        break;
      case normalization::log_softmax:
        map.shift = largest(x);
        map.residual =
            static_cast<T>(std::log(loops::exponentials(x, call_.count, map.shift, nullptr)));
        break;
      case normalization::layer:
        // Near enough to the mean for most rows, so that they are read once less.
        map.shift = mean_of(x, std::min<std::int64_t>(call_.count, 64));
        if (!set_deviation(x, map)) {
          map.shift = mean_of(x, call_.count);
          (void)set_deviation(x, map);
        }
        break;
      case normalization::rms:
        (void)set_deviation(x, map);
        break;
      case normalization::batch:
        map.shift = load<T>(call_.type, addresses_.mean, offset);
        map.factor =
            factor_of(static_cast<double>(load<T>(call_.type, addresses_.variance, offset)));
        break;
      case normalization::l1:
        map.factor = norm_factor<T>(call_.kind, loops::magnitudes(x, call_.count));
        break;
      case normalization::l2:
        map.factor = norm_factor<T>(call_.kind, loops::squares(x, call_.count));
        break;
    }
    apply(map, source, y, offset);
  }

  [[nodiscard]] bool is_direct() const noexcept { return is_flat_ && call_.type == loops::direct; }
  [[nodiscard]] T largest(const T* x) const { return loops::largest(x, call_.count); }
  [[nodiscard]] T factor_of(double variance) const {
    return static_cast<T>(1.0 / std::sqrt(variance + call_.epsilon));
  }
  [[nodiscard]] static T mean_of(const T* x, std::int64_t count) {
    return static_cast<T>(loops::sum(x, count) / static_cast<double>(count));
  }
  /// @return whether the shift is near enough to the mean for an exact variance: as near as most
  ///     elements
  bool set_deviation(const T* x, row_map<T>& map) const {
    const auto sums = loops::deviations(x, call_.count, map.shift);
    const auto count = static_cast<double>(call_.count);
    double variance = sums.squares / count;
    bool is_near = true;
    if (call_.kind == normalization::layer) {
      // What the shift has left of the mean; Chan, Golub and LeVeque, 1983.
      const double residual = sums.differences / count;
      map.residual = static_cast<T>(residual);
      variance -= residual * residual;
      if (variance < 0) variance = 0;
      // The squares of differences from a distant shift overflow first.
      is_near = std::isfinite(variance) && residual * residual <= variance;
    }
    map.factor = factor_of(variance);
    return is_near;
  }

  T* memory(std::vector<T>& row) const {
    row.resize(static_cast<std::size_t>(call_.count));
    return row.data();
  }
  [[nodiscard]] const std::byte* address_in(const void* memory, std::int64_t offset) const {
    return static_cast<const std::byte*>(memory) + offset * (call_.type == storage::f64   ? 8
                                                             : call_.type == storage::f32 ? 4
                                                                                          : 2);
  }
  const T* input_row(std::int64_t offset) {
    if (is_direct()) return static_cast<const T*>(addresses_.x) + offset;
    T* const row = memory(inputs_);
    if (is_flat_) {
      loops::load_flat(call_.type, address_in(addresses_.x, offset), call_.count, row);
    } else {
      T* target = row;
      for_each_position(elements_, [&](const map_position<3>& element) {
        *target++ = load<T>(call_.type, addresses_.x, offset + element.offsets[1]);
      });
    }
    return row;
  }
  void write_row(const T* row, std::int64_t offset) {
    if (is_flat_) {
      auto* const target = const_cast<std::byte*>(address_in(addresses_.y, offset));
      return loops::store_flat(call_.type, row, call_.count, target);
    }
    for_each_position(elements_, [&](const map_position<3>& element) {
      store<overflow::saturates>(call_.type, addresses_.y, offset + element.offsets[0], *row++);
    });
  }
  /// Maps a row, with the parameters at `offset`.
  void apply(row_map<T> map, const T* x, T* y, std::int64_t offset) {
    if (is_beside_ || (addresses_.scale == nullptr && addresses_.bias == nullptr)) {
      map.scale = parameters_beside(addresses_.scale, offset, scales_);
      map.bias = parameters_beside(addresses_.bias, offset, biases_);
      return loops::map(map, x, call_.count, y);
    }
    // Each line of the row has the same parameters for a number of elements.
    const auto length = repetitions_;
    auto lines = elements_;
    if (length > 1) {
      --lines.rank;
      lines.count /= length;
    }
    const auto apply_line = [&](const map_position<3>& line) {
      const auto position = offset + line.offsets[2];
      if (addresses_.scale != nullptr) {
        map.constant_scale = load<T>(call_.type, addresses_.scale, position);
      }
      if (addresses_.bias != nullptr) {
        map.constant_bias = load<T>(call_.type, addresses_.bias, position);
      }
      loops::map(map, x, length, y);
      x += length;
      y += length;
    };
    if (lines.rank == 0) return apply_line({});
    for_each_position(lines, apply_line);
  }
  /// Parameters that lie as the elements of a row without gaps.
  const T* parameters_beside(const void* parameter, std::int64_t offset, kept_row& row) {
    if (parameter == nullptr) return nullptr;
    if (call_.type == loops::direct) return static_cast<const T*>(parameter) + offset;
    if (std::exchange(row.offset, offset) != offset) {
      loops::load_flat(call_.type, address_in(parameter, offset), call_.count, memory(row.values));
    }
    return row.values.data();
  }

  const normalize_call& call_;
  const map_layout<3>& elements_;
  const normalize_addresses& addresses_;
  bool is_flat_;
  bool lie_beside_;  // the rows
  bool streams_;     // rows past the caches
  bool is_beside_ = true;
  std::int64_t repetitions_ = 1;
  std::vector<T> inputs_;
  std::vector<T> results_;
  kept_row scales_;
  kept_row biases_;
};

/// The least number of rows in a part. Elements of few rows that lie side by side are a small part
/// of a page, but several threads want a part, too.
template <class T>
std::int64_t least_rows(const normalize_call& call) noexcept {
  if (!lie_beside(call)) return 1;
  constexpr std::int64_t least = 16;
  constexpr std::int64_t most = 256;
  constexpr std::int64_t parts = 16;
  constexpr std::int64_t fewest_parts = 4;
  const auto rows = std::clamp(call.shape[call.row_rank - 1] / parts, least, most);
  // Fewer columns of them do not fill a vector.
  if (has_softmax_columns(call)) return rows;
  // Longer rows are computed one by one, and gain nothing from each other.
  const auto together = rows_beside<T>(call);
  if (together == 1) return 1;
  return std::min(rows, std::max(call.rows / fewest_parts, together));
}

template <class T>
void compute_rows(const normalize_call& call, const normalize_addresses& addresses) {
  const auto rows = layout_of(call, 0, call.row_rank);
  const auto elements = layout_of(call, call.row_rank, call.rank);
  const bool are_columns = lie_beside(call) && has_softmax_columns(call);
  for_each_part(
      rows, cost_of_rows(call), [&](const map_layout<3>& part, const map_position<3>& origin) {
        if (are_columns) {
          return for_each_line(part, origin, [&](const map_position<3>& line) {
            compute_softmax_columns(call, addresses, line, part.shape[part.rank - 1]);
          });
        }
        row_computation<T> computation(call, elements, addresses);
        for_each_line(part, origin,
                      [&](const map_position<3>& line) { computation.compute_line(part, line); });
        computation.finish();
      });
}

}  // namespace

void compute_normalize(const normalize_call& call, const normalize_addresses& addresses) {
  if (call.type == storage::f64) return compute_rows<double>(call, addresses);
  compute_rows<float>(call, addresses);
}

map_cost cost_of_rows(const normalize_call& call) noexcept {
  const bool is_f64 = call.type == storage::f64;
  return {.nanoseconds = (is_f64 ? 15 : 2) * static_cast<double>(call.count),
          .least = is_f64 ? least_rows<double>(call) : least_rows<float>(call)};
}

}  // namespace sluice::host
