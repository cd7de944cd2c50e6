// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/arithmetic.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <sluice/operations/reduction.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// What the plan of a reduction depends on.
struct reduce_key {
  std::int64_t workspace_bytes = 0;
};

/// y = a number for the elements of x for each index of y.
struct reduce_call {
  reduce_key key{};
  map_layout<2> results{};  ///< y, x: the results
  /// x and, for argmax and argmin, their numbers: the elements of one result.
  map_layout<2> reduced{};
  reduction kind = reduction::sum;
  bool last = false;             ///< of equal elements, the last one counts
  std::int32_t lanes = 1;        ///< threads that reduce one part: a power of two, at most 256
  std::int64_t parts = 1;        ///< parts of each result; two passes if there are several
  std::int64_t part_length = 0;  ///< elements of each part but the last one
  std::int64_t correction = 0;
};

/// Vectors of a row whose reads a thread has under way at once.
inline constexpr int reduce_vectors = 4;
/// The threads that reduce a row in vectors of some elements: few with many vectors each, if there
/// are enough rows.
[[nodiscard]] inline std::int32_t flat_lanes(const reduce_call& call, std::int64_t vector_size) {
  constexpr std::int64_t vectors_of_lane = 8;
  constexpr std::int64_t enough_threads = 1 << 17;
  constexpr std::int32_t warp = 32;
  const std::int64_t vectors = call.part_length / vector_size;
  const std::int64_t units = call.results.count * call.parts;
  auto lanes = call.lanes;
  while (lanes > 1 && lanes * 2 > vectors) lanes /= 2;
  while (lanes > warp && lanes * vectors_of_lane > vectors && units >= 2 * enough_threads / lanes) {
    lanes /= 2;
  }
  // A short row: a lane has as many vectors as it reads at once.
  while (lanes > 1 && lanes <= warp && lanes * reduce_vectors > vectors &&
         units >= 2 * enough_threads / lanes) {
    lanes /= 2;
  }
  return lanes;
}

// A reducer has the result of some elements, `value`, in which `add` counts one more element of
// type `element`, with its number. `combine` gives the result of the elements of two, and `finish`
// the number that is stored.

/// Sums of elements, or of a function of each.
template <class T>
struct sum_reducer {
  using element = T;
  using value = T;
  reduction kind;
  std::int64_t count;  ///< of the elements of a result

  [[nodiscard]] SLUICE_HOST_DEVICE static value identity() noexcept { return T{}; }
  /// Whether the elements themselves are added.
  [[nodiscard]] SLUICE_HOST_DEVICE bool is_plain() const noexcept {
    return kind == reduction::sum || kind == reduction::mean || kind == reduction::log_sum;
  }
  SLUICE_HOST_DEVICE void add(value& total, T x, std::int64_t) const noexcept {
    total = sum(total, term(x));
  }
  [[nodiscard]] SLUICE_HOST_DEVICE static value combine(value a, value b) noexcept {
    return sum(a, b);
  }
  [[nodiscard]] SLUICE_HOST_DEVICE T finish(value total) const noexcept {
    if constexpr (is_complex_v<T>) {
      if (kind != reduction::mean) return total;
      const auto n = static_cast<typename T::value_type>(count);
      return {total.real / n, total.imaginary / n};
    } else {
      if (kind == reduction::any) return T(total != T(0));
      if (kind == reduction::all) return T(total == T(0));
      if constexpr (std::is_floating_point_v<T>) {
        if (kind == reduction::mean) return total / static_cast<T>(count);
        if (kind == reduction::l2) return std::sqrt(total);
        if (kind == reduction::log_sum) return std::log(total);
      }
      return total;
    }
  }

 private:
  [[nodiscard]] SLUICE_HOST_DEVICE T term(T x) const noexcept {
    if constexpr (!is_complex_v<T>) {
      switch (kind) {
        case reduction::l1:
          return is_negative(x) ? difference(T(0), x) : x;
        case reduction::l2:
        case reduction::sum_of_squares:
          return product(x, x);
        case reduction::any:
          return T(x != T(0));
        case reduction::all:
          return T(x == T(0));
        default:
          break;
      }
    }
    return x;
  }
};

template <class T>
struct product_reducer {
  using element = T;
  using value = T;
  [[nodiscard]] SLUICE_HOST_DEVICE static value identity() noexcept {
    if constexpr (is_complex_v<T>) {
      return {1, 0};
    } else {
      return T(1);
    }
  }
  SLUICE_HOST_DEVICE void add(value& total, T x, std::int64_t) const noexcept {
    total = product(total, x);
  }
  [[nodiscard]] SLUICE_HOST_DEVICE static value combine(value a, value b) noexcept {
    return product(a, b);
  }
  [[nodiscard]] SLUICE_HOST_DEVICE T finish(value total) const noexcept { return total; }
};

/// The larger of all numbers, or the smaller.
template <class T>
struct extremum_reducer {
  using element = T;
  using value = T;
  bool is_max;

  [[nodiscard]] SLUICE_HOST_DEVICE value identity() const noexcept {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(is_max ? -INFINITY : INFINITY);
    } else {
      return is_max ? lowest_v<T> : highest_v<T>;
    }
  }
  SLUICE_HOST_DEVICE void add(value& extremum, T x, std::int64_t) const noexcept {
    extremum = combine(extremum, x);
  }
  [[nodiscard]] SLUICE_HOST_DEVICE value combine(value a, value b) const noexcept {
    return is_max ? larger(a, b) : smaller(a, b);
  }
  [[nodiscard]] SLUICE_HOST_DEVICE T finish(value extremum) const noexcept { return extremum; }
};

/// ln(Σ exp(x)).
struct exponential_reducer {
  using element = double;
  struct value {
    double largest;
    double total;  ///< of exp(x - largest)
  };
  [[nodiscard]] SLUICE_HOST_DEVICE static value identity() noexcept { return {-INFINITY, 0}; }
  SLUICE_HOST_DEVICE void add(value& sums, double x, std::int64_t) const noexcept {
    if (x <= sums.largest) {
      sums.total += power(x, sums.largest);
    } else {
      sums.total = sums.total * power(sums.largest, x) + 1;
      sums.largest = x;
    }
  }
  [[nodiscard]] SLUICE_HOST_DEVICE static value combine(value a, value b) noexcept {
    // NaN is the largest number.
    const double largest = b.largest <= a.largest || a.largest != a.largest ? a.largest : b.largest;
    return {largest, a.total * power(a.largest, largest) + b.total * power(b.largest, largest)};
  }
  [[nodiscard]] SLUICE_HOST_DEVICE double finish(value sums) const noexcept {
    return sums.largest + std::log(sums.total);
  }

 private:
  /// exp(x - largest), also where both are infinite.
  [[nodiscard]] SLUICE_HOST_DEVICE static double power(double x, double largest) noexcept {
    return x == largest ? 1.0 : std::exp(x - largest);
  }
};

/// The variance, from sums about one of the elements; Chan, Golub and LeVeque, "Algorithms for
/// computing the sample variance", 1983.
struct variance_reducer {
  static constexpr double largest_double = 1.7976931348623157e308;
  using element = double;
  struct value {
    double count;
    double shift;        ///< the first element
    double differences;  ///< the sum of x - shift
    double squares;      ///< the sum of its square
  };
  std::int64_t correction;

  [[nodiscard]] SLUICE_HOST_DEVICE static value identity() noexcept { return {0, 0, 0, 0}; }
  SLUICE_HOST_DEVICE void add(value& sums, double x, std::int64_t) const noexcept {
    if (sums.count == 0) sums.shift = x;
    const double difference = x - sums.shift;
    sums.count += 1;
    sums.differences += difference;
    sums.squares += difference * difference;
  }
  [[nodiscard]] SLUICE_HOST_DEVICE static value combine(value a, value b) noexcept {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    // About the mean of both: an element far from the others does not stay the reference.
    const double count = a.count + b.count;
    const double distance = mean(b) - mean(a);
    return {count, mean(a) + distance * (b.count / count), 0,
            deviations(a) + deviations(b) + distance * distance * (a.count * b.count / count)};
  }
  [[nodiscard]] SLUICE_HOST_DEVICE double finish(value sums) const noexcept {
    const double degrees = sums.count - static_cast<double>(correction);
    if (degrees < 0) return static_cast<double>(NAN);
    return deviations(sums) / degrees;
  }

 private:
  [[nodiscard]] SLUICE_HOST_DEVICE static double mean(const value& sums) noexcept {
    return sums.differences == 0 ? sums.shift : sums.shift + sums.differences / sums.count;
  }
  /// The sum of squared differences from the mean.
  [[nodiscard]] SLUICE_HOST_DEVICE static double deviations(const value& sums) noexcept {
    if (sums.differences == 0) return sums.squares;
    // Where the squares of finite differences overflow, what is subtracted below may, too.
    if (sums.squares > largest_double && std::abs(sums.differences) <= largest_double) {
      return sums.squares;
    }
    const double squares = sums.squares - sums.differences * (sums.differences / sums.count);
    return squares < 0 ? 0 : squares;
  }
};

/// The number of the first extremum, or of the last one.
template <class T>
struct position_reducer {
  using element = T;
  struct value {
    T extremum;
    std::int64_t position;  ///< below 0 without any element
  };
  bool is_max;
  bool last;

  [[nodiscard]] SLUICE_HOST_DEVICE static value identity() noexcept { return {T(0), -1}; }
  SLUICE_HOST_DEVICE void add(value& best, T x, std::int64_t position) const noexcept {
    best = combine(best, {x, position});
  }
  [[nodiscard]] SLUICE_HOST_DEVICE value combine(value a, value b) const noexcept {
    if (a.position < 0) return b;
    if (b.position < 0) return a;
    if (exceeds(a.extremum, b.extremum)) return a;
    if (exceeds(b.extremum, a.extremum)) return b;
    return (a.position < b.position) != last ? a : b;
  }
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t finish(value best) const noexcept {
    return best.position;
  }

 private:
  /// NaN exceeds all numbers.
  [[nodiscard]] SLUICE_HOST_DEVICE bool exceeds(T a, T b) const noexcept {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return a != a && b == b;
    }
    return is_max ? a > b : a < b;
  }
};

/// Stores a result of a reduction in the computed type, or in a type that holds it.
template <class T>
SLUICE_HOST_DEVICE inline void store_result(storage type, void* y, std::int64_t i,
                                            T value) noexcept {
  if constexpr (is_complex_v<T>) {
    store<overflow::wraps>(type, y, i, value);
  } else if (type == storage::boolean) {
    put_element<std::uint8_t>(y, i, value != T(0) ? 1 : 0);
  } else if constexpr (std::is_floating_point_v<T>) {
    switch (type) {
      case storage::f16:
        return put_element(y, i, f16(rounded_to_odd(value)));
      case storage::bf16:
        return put_element(y, i, bf16(rounded_to_odd(value)));
      case storage::f32:
        return put_element(y, i, static_cast<float>(value));
      default:
        return put_element(y, i, static_cast<double>(value));
    }
  } else {
    switch (type) {
      case storage::u8:
      case storage::i8:
        return put_element(y, i, static_cast<std::uint8_t>(value));
      case storage::u16:
      case storage::i16:
        return put_element(y, i, static_cast<std::uint16_t>(value));
      case storage::u32:
      case storage::i32:
        return put_element(y, i, static_cast<std::uint32_t>(value));
      default:
        return put_element(y, i, static_cast<std::uint64_t>(value));
    }
  }
}

/// Calls `run(reducer)` with the reducer for the types of a call, and returns its status. Real
/// numbers are reduced in f64 and complex ones in c128.
template <class Run>
int visit(const reduce_call& call, const Run& run) {
  const auto type = compute_type_of(call.results.types[1]);
  const bool is_complex = type == compute_type::c64 || type == compute_type::c128;
  const auto with_real = [&](auto make_reducer) {
    if (type == compute_type::i64) return run(make_reducer(std::int64_t{}));
    if (type == compute_type::u64) return run(make_reducer(std::uint64_t{}));
    return run(make_reducer(double{}));
  };
  switch (call.kind) {
    case reduction::max:
    case reduction::min:
      return with_real(
          [&](auto x) { return extremum_reducer<decltype(x)>{call.kind == reduction::max}; });
    case reduction::argmax:
    case reduction::argmin:
      return with_real([&](auto x) {
        return position_reducer<decltype(x)>{call.kind == reduction::argmax, call.last};
      });
    case reduction::product:
      if (is_complex) return run(product_reducer<complex_number<double>>());
      return with_real([](auto x) { return product_reducer<decltype(x)>(); });
    case reduction::log_sum_exp:
      return run(exponential_reducer());
    case reduction::variance:
      return run(variance_reducer{call.correction});
    case reduction::mean:
    case reduction::l2:
    case reduction::log_sum:
      if (!is_complex) return run(sum_reducer<double>{call.kind, call.reduced.count});
      break;
    default:
      break;
  }
  if (is_complex) {
    return run(sum_reducer<complex_number<double>>{call.kind, call.reduced.count});
  }
  return with_real([&](auto x) { return sum_reducer<decltype(x)>{call.kind, call.reduced.count}; });
}

}  // namespace sluice::operations
