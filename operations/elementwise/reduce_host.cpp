// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/reduce_functions.hpp"
#include "operations/elementwise/reduce_lines.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace sluice::host {
namespace {

using namespace operations;

template <int Operands>
std::int64_t last_extent(const map_layout<Operands>& layout) {
  return layout.shape[layout.rank - 1];
}
template <int Operands>
std::int64_t last_stride(const map_layout<Operands>& layout, int operand) {
  return layout.strides[operand][layout.rank - 1];
}

/// Some results of a reduction. Each result is reduced by one thread, so its bits do not depend on
/// the parts.
struct results_part {
  const map_layout<2>& layout;
  const map_position<2>& origin;
};
template <class Function>
void for_each_results_part(const reduce_call& call, double nanoseconds_of_element,
                           std::int64_t least, const Function& function) {
  const map_cost cost{
      .nanoseconds = nanoseconds_of_element *
                     static_cast<double>(std::max<std::int64_t>(call.reduced.count, 1)),
      .least = least};
  for_each_part(call.results, cost,
                [&](const map_layout<2>& layout, const map_position<2>& origin) {
                  function(results_part{layout, origin});
                });
}
/// Results whose columns are reduced at once. Narrower columns are read from memory half as fast.
constexpr std::int64_t column_block = 2048;
constexpr double vector_nanoseconds = 0.3;
constexpr double scalar_nanoseconds = 2;

/// Reduces elements that lie side by side, with at least one for each result.
template <class Reduction>
void reduce_lines(const reduce_call& call, const results_part& part, const Reduction& reduction,
                  const void* x, void* y) {
  for_each_position(part.layout, part.origin, [&](const map_position<2>& position) {
    auto accumulator = reduction.reducer.identity();
    for_each_line(call.reduced, {}, [&](const map_position<2>& line) {
      for_each_f32(call.results.types[1], x, position.offsets[1] + line.offsets[0],
                   last_extent(call.reduced), [&](const float* elements, std::int64_t count) {
                     reduction.combine(accumulator, elements, count);
                   });
    });
    store_result(call.results.types[0], y, position.offsets[0],
                 reduction.reducer.finish(accumulator));
  });
}

/// Reduces elements whose neighbours belong to other results, many results at once.
template <class Reduction>
void reduce_columns(const reduce_call& call, const results_part& part, const Reduction& reduction,
                    const float* x, void* y) {
  std::array<typename Reduction::value, column_block> accumulators;
  const auto columns = last_extent(part.layout);
  for_each_line(part.layout, part.origin, [&](const map_position<2>& line) {
    for (std::int64_t column = 0; column < columns; column += column_block) {
      const auto count = std::min(column_block, columns - column);
      std::fill_n(accumulators.begin(), count, reduction.reducer.identity());
      for_each_line(call.reduced, {}, [&](const map_position<2>& row) {
        reduction.combine_each(accumulators.data(),
                               {x + line.offsets[1] + column + row.offsets[0],
                                last_stride(call.reduced, 0), last_extent(call.reduced)},
                               count);
      });
      for (std::int64_t i = 0; i < count; ++i) {
        store_result(call.results.types[0], y,
                     line.offsets[0] + (column + i) * last_stride(call.results, 0),
                     reduction.reducer.finish(accumulators[static_cast<std::size_t>(i)]));
      }
    }
  });
}

/// Reduces f32, f16 and bf16 in vectors, if a dimension of x has no gaps and is long enough.
/// @return whether it did
template <class Reduction>
bool reduce_f32(const reduce_call& call, const Reduction& reduction, const void* x, void* y) {
  constexpr std::int64_t least = 8;
  const auto type = call.results.types[1];
  const bool is_f32 = type == storage::f32;
  if (!is_reduced_as_f32(type) || call.reduced.count == 0) return false;
  if (last_stride(call.reduced, 0) == 1 && last_extent(call.reduced) >= least) {
    for_each_results_part(call, vector_nanoseconds, 1, [&](const results_part& part) {
      reduce_lines(call, part, reduction, x, y);
    });
    return true;
  }
  if (is_f32 && last_stride(call.results, 1) == 1 && last_extent(call.results) >= least) {
    for_each_results_part(call, vector_nanoseconds, column_block, [&](const results_part& part) {
      reduce_columns(call, part, reduction, static_cast<const float*>(x), y);
    });
    return true;
  }
  return false;
}

/// The first or the last extremum of f32, f16 and bf16, if the elements of a result lie side by
/// side: finds the extremum of each block in vectors, and its position where it is the best so far.
/// @return whether it did
bool find_f32(const reduce_call& call, const position_reducer<double>& reducer, const void* x,
              void* y) {
  const auto type = call.results.types[1];
  if (!is_reduced_as_f32(type) || call.reduced.rank != 1 || call.reduced.strides[0][0] != 1) {
    return false;
  }
  const auto is_found = [](float candidate, float extremum) {
    return candidate == extremum || (candidate != candidate && extremum != extremum);
  };
  for_each_results_part(call, vector_nanoseconds, 1, [&](const results_part& part) {
    for_each_position(part.layout, part.origin, [&](const map_position<2>& position) {
      auto best = reducer.identity();
      std::int64_t first = 0;
      for_each_f32(type, x, position.offsets[1], last_extent(call.reduced),
                   [&](const float* elements, std::int64_t count) {
                     constexpr std::int64_t block = 1024;
                     for (std::int64_t i = 0; i < count; i += block) {
                       const auto length = std::min(block, count - i);
                       const float* const begin = elements + i;
                       const float extremum =
                           reducer.is_max ? max_f32(begin, length) : min_f32(begin, length);
                       const auto candidate =
                           reducer.combine(best, {static_cast<double>(extremum), first + i});
                       if (best.position >= 0 && candidate.position == best.position) continue;
                       auto k = reducer.last ? length - 1 : 0;
                       while (!is_found(begin[k], extremum)) k += reducer.last ? -1 : 1;
                       best = {static_cast<double>(extremum), first + i + k};
                     }
                     first += count;
                   });
      store_result(call.results.types[0], y, position.offsets[0], reducer.finish(best));
    });
  });
  return true;
}

template <class Reducer>
void reduce_any(const reduce_call& call, const Reducer& reducer, const void* x, void* y) {
  for_each_results_part(call, scalar_nanoseconds, 1, [&](const results_part& part) {
    for_each_position(part.layout, part.origin, [&](const map_position<2>& position) {
      element_sums<Reducer> sums(reducer);
      if (call.reduced.count != 0) {
        for_each_position(call.reduced, [&](const map_position<2>& element) {
          const auto offset = position.offsets[1] + element.offsets[0];
          sums.add(load<typename Reducer::element>(call.results.types[1], x, offset),
                   element.offsets[1]);
        });
      }
      store_result(call.results.types[0], y, position.offsets[0], reducer.finish(sums.total()));
    });
  });
}

struct reduction_runner {
  const reduce_call& call;
  const void* x;
  void* y;

  template <class Reducer>
  int operator()(const Reducer& reducer) const {
    reduce_any(call, reducer, x, y);
    return 0;
  }
  int operator()(const sum_reducer<double>& reducer) const {
    const auto sum = vector_sum(reducer);
    if (!sum || !reduce_f32(call, *sum, x, y)) reduce_any(call, reducer, x, y);
    return 0;
  }
  int operator()(const position_reducer<double>& reducer) const {
    if (!find_f32(call, reducer, x, y)) reduce_any(call, reducer, x, y);
    return 0;
  }
  int operator()(const extremum_reducer<double>& reducer) const {
    if (!reduce_f32(call, f32_extremum{{reducer.is_max}}, x, y)) reduce_any(call, reducer, x, y);
    return 0;
  }
};

}  // namespace

void compute_reduce(const reduce_call& call, const void* x, void* y) {
  (void)visit(call, reduction_runner{call, x, y});
}

}  // namespace sluice::host
