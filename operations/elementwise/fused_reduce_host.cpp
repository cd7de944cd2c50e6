// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/fused_blocks.hpp"
#include "operations/elementwise/reduce_lines.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace sluice::host {
namespace {

using namespace operations;
using layout_type = fused_map::layout_type;

/// How blocks of elements are reduced: `combine` to one result, `for_each_row` rows of `count`
/// elements to a result each, and `combine_each` such rows to a result for each column.
///@{
template <class Reducer>
struct element_lines {
  using value = typename Reducer::value;
  Reducer reducer;
  storage type;

  void combine(value& accumulator, const void* x, std::int64_t count) const {
    element_sums<Reducer> sums(reducer);
    for (std::int64_t i = 0; i < count; ++i) sums.add(element(x, i), 0);
    accumulator = reducer.combine(accumulator, sums.total());
  }
  template <class Put>
  void for_each_row(const void* x, std::int64_t rows, std::int64_t count, const Put& put) const {
    for (std::int64_t row = 0; row < rows; ++row) {
      element_sums<Reducer> sums(reducer);
      for (std::int64_t i = 0; i < count; ++i) sums.add(element(x, row * count + i), 0);
      put(row, sums.total());
    }
  }
  void combine_each(value* accumulators, const void* x, std::int64_t rows,
                    std::int64_t count) const {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < count; ++i) {
        reducer.add(accumulators[i], element(x, row * count + i), 0);
      }
    }
  }

 private:
  [[nodiscard]] typename Reducer::element element(const void* x, std::int64_t i) const {
    return load<typename Reducer::element>(type, x, i);
  }
};

/// In vectors.
template <class Reduction>
struct f32_lines {
  using value = typename Reduction::value;
  Reduction reduction;
  storage type;
  decltype(Reduction::reducer) reducer = reduction.reducer;

  void combine(value& accumulator, const void* x, std::int64_t count) const {
    for_each_f32(type, x, 0, count, [&](const float* elements, std::int64_t length) {
      reduction.combine(accumulator, elements, length);
    });
  }
  template <class Put>
  void for_each_row(const void* x, std::int64_t rows, std::int64_t count, const Put& put) const {
    with_block(x, rows * count, [&](const float* elements) {
      for (std::int64_t row = 0; row < rows; ++row) {
        auto total = reducer.identity();
        reduction.combine(total, elements + row * count, count);
        put(row, total);
      }
    });
  }
  void combine_each(value* accumulators, const void* x, std::int64_t rows,
                    std::int64_t count) const {
    with_block(x, rows * count, [&](const float* elements) {
      reduction.combine_each(accumulators, {elements, count, rows}, count);
    });
  }

 private:
  /// Calls `function` with the elements of a block as f32.
  template <class Function>
  void with_block(const void* x, std::int64_t count, const Function& function) const {
    if (type == storage::f32) return function(static_cast<const float*>(x));
    std::array<float, max_fused_block> elements;
    load_f32(type, x, count, elements.data());
    function(elements.data());
  }
};
///@}

/// The results of some columns. Blocks of rows keep the rounding of long sums small, as in
/// `element_sums`.
template <class Lines>
class column_totals {
 public:
  using value = typename Lines::value;
  /// The most columns.
  static constexpr std::size_t size = (std::size_t{16} << 10U) / sizeof(value);

  column_totals(const Lines& lines, std::int64_t columns) : lines_(lines), columns_(columns) {
    std::fill_n(totals_.begin(), columns, lines.reducer.identity());
    std::fill_n(pending_.begin(), columns, lines.reducer.identity());
  }
  /// Adds rows without gaps.
  void add(const void* x, std::int64_t rows) {
    for (std::int64_t first = 0; first < rows;) {
      const auto count = std::min(rows - first, block - added_);
      const auto* const part =
          static_cast<const std::byte*>(x) +
          static_cast<std::ptrdiff_t>(first * columns_ * bytes_of(lines_.type));
      lines_.combine_each(pending_.data(), part, count, columns_);
      first += count;
      added_ += count;
      if (added_ == block) flush();
    }
  }
  [[nodiscard]] std::span<const value> finish() {
    if (added_ != 0) flush();
    return std::span(totals_).first(static_cast<std::size_t>(columns_));
  }

 private:
  static constexpr std::int64_t block = 256;
  void flush() {
    for (std::size_t i = 0; i < static_cast<std::size_t>(columns_); ++i) {
      totals_[i] = lines_.reducer.combine(totals_[i], pending_[i]);
      pending_[i] = lines_.reducer.identity();
    }
    added_ = 0;
  }

  const Lines& lines_;
  std::int64_t columns_;
  std::int64_t added_ = 0;  // rows
  std::array<value, size> totals_;
  std::array<value, size> pending_;
};

[[nodiscard]] fused_position sum_of_positions(fused_position a, const fused_position& b) noexcept {
  for (int k = 0; k < fused_map::operands; ++k) a.offsets[k] += b.offsets[k];
  return a;
}

/// A part of a layout.
struct layout_part {
  const layout_type& layout;
  fused_position origin;
};

/// Computes a map in blocks, and reduces each block while it is in the first cache.
template <class Lines>
class block_reduction {
 public:
  block_reduction(const fused_map& map, std::span<const fused_part> functions,
                  std::span<void* const> addresses, const Lines& lines)
      : map_(map), functions_(functions), addresses_(addresses), lines_(lines) {}

  void run(double nanoseconds_of_element) const {
    const auto& results = map_.layout;
    const auto& elements = map_.reduced->elements;
    const auto nanoseconds = nanoseconds_of_element * static_cast<double>(elements.count);
    const auto few_results = map_.reduced->along_rows ? 64 : 4096;
    if (results.count < few_results && run_parts(nanoseconds)) return;
    // Each result is reduced by one thread, so its bits do not depend on the parts.
    const auto least = map_.reduced->along_rows ? 1 + max_fused_block / elements.count : 512;
    for_each_part(results, {.nanoseconds = nanoseconds, .least = least},
                  [&](const layout_type& part, const fused_position& origin) {
                    reduce({part, origin}, {elements, {}},
                           [&](std::int64_t y, const value& total) { store(y, total); });
                  });
  }

 private:
  using value = typename Lines::value;
  static constexpr std::int64_t max_totals = 16384;

  void store(std::int64_t y, const value& total) const {
    store_result(map_.layout.types[0], addresses_[0], y, lines_.reducer.finish(total));
  }

  /// Reduces parts of the elements of few results on several threads. The parts depend on the
  /// layouts and the cost alone.
  /// @return whether there are several parts
  [[nodiscard]] bool run_parts(double nanoseconds_of_result) const {
    const auto& results = map_.layout;
    const auto& elements = map_.reduced->elements;
    const auto items = elements.shape[0];
    auto least = (items * results.count + max_totals - 1) / max_totals;
    if (map_.reduced->along_rows && elements.rank == 1) least = std::max(least, max_fused_block);
    const work_chunks chunks(
        items,
        nanoseconds_of_result * static_cast<double>(results.count) / static_cast<double>(items),
        least);
    if (chunks.count() < 2) return false;
    const auto totals = std::make_unique_for_overwrite<value[]>(
        static_cast<std::size_t>(chunks.count() * results.count));
    parallel_for(chunks.count(), [&](std::int64_t chunk) {
      const auto [begin, end] = chunks[chunk];
      auto part = elements;
      part.shape[0] = end - begin;
      part.count = elements.count / items * part.shape[0];
      auto* next = totals.get() + chunk * results.count;
      reduce({results, {}}, {part, moved({}, strides_along(elements, 0), begin)},
             [&](std::int64_t, const value& total) { *next++ = total; });
    });
    auto* total = totals.get();
    for_each_position(results, [&](const fused_position& position) {
      for (std::int64_t chunk = 1; chunk < chunks.count(); ++chunk) {
        *total = lines_.reducer.combine(*total, total[chunk * results.count]);
      }
      store(position.offsets[0], *total++);
    });
    return true;
  }

  /// Reduces elements of some results, and calls `put(offset of Y, value)` for each of these, in
  /// order.
  template <class Put>
  void reduce(const layout_part& results, const layout_part& elements, const Put& put) const {
    if (!map_.reduced->along_rows) return reduce_columns(results, elements, put);
    // Short rows are taken several at a time.
    const bool is_short = elements.layout.rank == 1 &&
                          elements.layout.shape[0] < block_evaluator::size_for(map_) / 4 &&
                          results.layout.shape[results.layout.rank - 1] > 1;
    return is_short ? reduce_short_rows(results, elements, put)
                    : reduce_rows(results, elements, put);
  }
  template <class Put>
  void reduce_rows(const layout_part& results, const layout_part& elements, const Put& put) const {
    block_evaluator blocks(map_, functions_, addresses_, row_strides(elements.layout),
                           column_strides(elements.layout));
    for_each_position(results.layout, results.origin, [&](const fused_position& result) {
      auto total = lines_.reducer.identity();
      for_each_block(elements.layout, sum_of_positions(result, elements.origin), blocks.size(),
                     [&](const fused_position& position, std::int64_t height, std::int64_t width) {
                       lines_.combine(total, blocks.evaluate(position, height, width),
                                      height * width);
                     });
      put(result.offsets[0], total);
    });
  }
  template <class Put>
  void reduce_short_rows(const layout_part& results, const layout_part& elements,
                         const Put& put) const {
    const auto along_results = column_strides(results.layout);
    const auto count = results.layout.shape[results.layout.rank - 1];
    const auto width = elements.layout.shape[0];
    block_evaluator blocks(map_, functions_, addresses_, along_results,
                           column_strides(elements.layout));
    const auto rows_at_once = blocks.size() / width;
    for_each_line(results.layout, results.origin, [&](const fused_position& line) {
      for (std::int64_t row = 0; row < count; row += rows_at_once) {
        const auto height = std::min(rows_at_once, count - row);
        const auto* const block = blocks.evaluate(
            moved(sum_of_positions(line, elements.origin), along_results, row), height, width);
        lines_.for_each_row(block, height, width, [&](std::int64_t i, const value& total) {
          put(line.offsets[0] + (row + i) * along_results[0], total);
        });
      }
    });
  }
  template <class Put>
  void reduce_columns(const layout_part& results, const layout_part& elements,
                      const Put& put) const {
    const auto along_results = column_strides(results.layout);
    const auto along_elements = column_strides(elements.layout);
    const auto columns = results.layout.shape[results.layout.rank - 1];
    const auto rows = elements.layout.shape[elements.layout.rank - 1];
    block_evaluator blocks(map_, functions_, addresses_, along_elements, along_results);
    const auto columns_at_once =
        std::min(blocks.size(), static_cast<std::int64_t>(column_totals<Lines>::size));
    for_each_line(results.layout, results.origin, [&](const fused_position& line) {
      for (std::int64_t column = 0; column < columns; column += columns_at_once) {
        const auto width = std::min(columns_at_once, columns - column);
        const auto rows_at_once = blocks.size() / width;
        column_totals<Lines> totals(lines_, width);
        const auto first = moved(line, along_results, column);
        for_each_line(elements.layout, elements.origin, [&](const fused_position& outer) {
          for (std::int64_t row = 0; row < rows; row += rows_at_once) {
            const auto height = std::min(rows_at_once, rows - row);
            totals.add(blocks.evaluate(moved(sum_of_positions(first, outer), along_elements, row),
                                       height, width),
                       height);
          }
        });
        std::int64_t i = 0;
        for (const auto& total : totals.finish()) {
          put(first.offsets[0] + i++ * along_results[0], total);
        }
      }
    });
  }

  const fused_map& map_;
  std::span<const fused_part> functions_;
  std::span<void* const> addresses_;
  const Lines& lines_;
};

/// Chooses the loops for the type of the elements.
struct block_reduction_runner {
  const fused_map& map;
  std::span<void* const> addresses;

  template <class Reducer>
  int operator()(const Reducer& reducer) const {
    return run_any(reducer);
  }
  int operator()(const sum_reducer<double>& reducer) const {
    const auto sum = vector_sum(reducer);
    return sum && is_reduced_as_f32(map.last_type()) ? run_f32(*sum) : run_any(reducer);
  }
  int operator()(const extremum_reducer<double>& reducer) const {
    return is_reduced_as_f32(map.last_type()) ? run_f32(f32_extremum{{reducer.is_max}})
                                              : run_any(reducer);
  }
  // Such reductions are computed alone.
  template <class T>
  int operator()(const position_reducer<T>&) const {
    return 0;
  }

 private:
  template <class Reducer>
  int run_any(const Reducer& reducer) const {
    constexpr double nanoseconds = 2;
    return run(element_lines<Reducer>{reducer, map.last_type()}, nanoseconds);
  }
  template <class Reduction>
  int run_f32(const Reduction& reduction) const {
    constexpr double nanoseconds = 0.3;
    return run(f32_lines<Reduction>{reduction, map.last_type()}, nanoseconds);
  }
  template <class Lines>
  int run(const Lines& lines, double nanoseconds) const {
    // Of an element on one thread: the operands in memory, the functions, and the reduction.
    const auto functions = parts_of(map);
    block_reduction<Lines>(map, functions, addresses, lines)
        .run(0.5 + nanoseconds_of(functions) + nanoseconds);
    return 0;
  }
};

}  // namespace

void compute_fused_reduction(const fused_map& map, std::span<void* const> addresses) {
  (void)visit(map.reduced->call, block_reduction_runner{map, addresses});
}

bool reduces_in_blocks(const fused_map& map) {
  // Blocks are computed along two dimensions. Each function of a small one takes the time of many
  // elements.
  constexpr std::int64_t least = 256;
  const auto last_of = [](const layout_type& layout, int from_last = 0) {
    return layout.shape[layout.rank - 1 - from_last];
  };
  const auto& elements = map.reduced->elements;
  const bool has_rows_of_a_result = map.reduced->along_rows && elements.rank > 1;
  const auto block =
      last_of(elements) * (has_rows_of_a_result ? last_of(elements, 1) : last_of(map.layout));
  return block >= std::min(least, map.layout.count * elements.count);
}

}  // namespace sluice::host
