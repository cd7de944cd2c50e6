// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/functors.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// The kinds of reductions, with the values of `reduction`, which kernels cannot see.
enum class reduction_kind : std::uint8_t { sum, mean, max };

/// What the plan of a reduction depends on.
struct reduce_key {
  std::int64_t workspace_bytes = 0;
};

/// y = the sum, the mean or the maximum of the elements of x for each index of y.
struct reduce_call {
  reduce_key key{};
  map_layout<2> results{};  ///< y, x: the results
  map_layout<1> reduced{};  ///< x: the elements of one result
  reduction_kind kind = reduction_kind::sum;
  std::int32_t lanes = 1;  ///< threads that reduce one part: a power of two, at most 256
  std::int64_t parts = 1;  ///< parts of each result; two passes if there are several
};

/// How numbers of type `T` are reduced.
///@{
template <class T>
struct sum_reducer {
  using value = T;
  std::int64_t divisor = 1;
  [[nodiscard]] SLUICE_HOST_DEVICE static T identity() noexcept { return T{}; }
  [[nodiscard]] SLUICE_HOST_DEVICE static T combine(T a, T b) noexcept { return sum(a, b); }
  [[nodiscard]] SLUICE_HOST_DEVICE T finish(T total) const noexcept {
    if constexpr (is_complex_v<T>) {
      const auto n = static_cast<typename T::value_type>(divisor);
      return {total.real / n, total.imaginary / n};
    } else if constexpr (std::is_floating_point_v<T>) {
      return total / static_cast<T>(divisor);
    } else {
      return total;
    }
  }
};
template <class T>
struct max_reducer {
  using value = T;
  [[nodiscard]] SLUICE_HOST_DEVICE static T identity() noexcept {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(-INFINITY);
    return lowest_v<T>;
  }
  [[nodiscard]] SLUICE_HOST_DEVICE static T combine(T a, T b) noexcept { return larger(a, b); }
  [[nodiscard]] SLUICE_HOST_DEVICE T finish(T largest) const noexcept { return largest; }
};
///@}

/// Calls `run(reducer)` with the reducer for the types of a call, and returns its status. Real
/// numbers are reduced in f64 and complex ones in c128. Returns 0 for types that it does not take.
template <class Run>
int visit(const reduce_call& call, const Run& run) {
  const auto type = compute_type_of(call.results.types[1]);
  if (call.kind == reduction_kind::max) {
    if (type == compute_type::i64) return run(max_reducer<std::int64_t>{});
    if (type == compute_type::u64) return run(max_reducer<std::uint64_t>{});
    if (type == compute_type::f32 || type == compute_type::f64) return run(max_reducer<double>{});
    return 0;
  }
  const bool mean = call.kind == reduction_kind::mean;
  const std::int64_t divisor = mean ? call.reduced.count : 1;
  if (type == compute_type::c64 || type == compute_type::c128) {
    return run(sum_reducer<complex_number<double>>{divisor});
  }
  if (type == compute_type::i64 && !mean) return run(sum_reducer<std::int64_t>{divisor});
  if (type == compute_type::u64 && !mean) return run(sum_reducer<std::uint64_t>{divisor});
  return run(sum_reducer<double>{divisor});
}

}  // namespace sluice::operations
