// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/f32_loops.hpp"
#include "operations/elementwise/reduce_call.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

// Reductions of elements that lie side by side, on a host device.
namespace sluice::host {

/// How f32 is reduced with the loops of f32_loops.hpp.
///@{
struct f32_sum {
  using value = double;
  operations::sum_reducer<double> reducer;
  sum_term term;
  void combine(double& accumulator, const float* x, std::int64_t count) const {
    accumulator += sum_f32(term, x, count);
  }
  void combine_each(double* accumulators, const f32_rows& rows, std::int64_t count) const {
    sum_rows_f32(term, rows, count, accumulators);
  }
};
struct f32_extremum {
  using value = float;
  operations::extremum_reducer<float> reducer;
  void combine(float& accumulator, const float* x, std::int64_t count) const {
    accumulator =
        reducer.combine(accumulator, reducer.is_max ? max_f32(x, count) : min_f32(x, count));
  }
  void combine_each(float* accumulators, const f32_rows& rows, std::int64_t count) const {
    if (reducer.is_max) {
      max_rows_f32(rows, count, accumulators);
    } else {
      min_rows_f32(rows, count, accumulators);
    }
  }
};
///@}

/// How f32 is summed in vectors; nothing if it is not.
[[nodiscard]] inline std::optional<f32_sum> vector_sum(
    const operations::sum_reducer<double>& reducer) {
  switch (reducer.kind) {
    case reduction::sum:
    case reduction::mean:
    case reduction::log_sum:
      return f32_sum{reducer, sum_term::number};
    case reduction::l1:
      return f32_sum{reducer, sum_term::magnitude};
    case reduction::l2:
    case reduction::sum_of_squares:
      return f32_sum{reducer, sum_term::square};
    default:
      return std::nullopt;
  }
}

/// Whether the elements of a type are reduced as f32.
[[nodiscard]] constexpr bool is_reduced_as_f32(operations::storage type) noexcept {
  using operations::storage;
  return type == storage::f32 || type == storage::f16 || type == storage::bf16;
}

/// Calls `function` with the elements of a line as f32, a block at a time.
template <class Function>
void for_each_f32(operations::storage type, const void* x, std::int64_t first, std::int64_t count,
                  const Function& function) {
  if (type == operations::storage::f32) {
    return function(static_cast<const float*>(x) + first, count);
  }
  constexpr std::int64_t block = 1024;
  std::array<float, block> elements;
  const auto* const source = static_cast<const std::uint16_t*>(x) + first;
  for (std::int64_t i = 0; i < count; i += block) {
    const auto length = std::min(block, count - i);
    load_f32(type, source + i, length, elements.data());
    function(elements.data(), length);
  }
}

/// Reduces elements of any type one after the other. Blocks keep the rounding of long sums small.
template <class Reducer>
class element_sums {
 public:
  using value = typename Reducer::value;
  explicit element_sums(const Reducer& reducer)
      : reducer_(reducer), total_(reducer.identity()), pending_(reducer.identity()) {}
  void add(typename Reducer::element x, std::int64_t number) {
    reducer_.add(pending_, x, number);
    if (++added_ == block) flush();
  }
  [[nodiscard]] value total() const { return reducer_.combine(total_, pending_); }

 private:
  static constexpr int block = 256;
  void flush() {
    total_ = reducer_.combine(total_, pending_);
    pending_ = reducer_.identity();
    added_ = 0;
  }

  const Reducer& reducer_;
  value total_;
  value pending_;
  int added_ = 0;
};

}  // namespace sluice::host
