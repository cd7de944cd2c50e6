// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/epilogue_call.hpp"
#include "operations/elementwise/activations.hpp"
#include "operations/elementwise/arithmetic.hpp"
#include "operations/elementwise/f32_loops.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace sluice::host {

/// A part of a matrix that is stored by columns without gaps between its rows.
struct matrix_part {
  std::int64_t matrix = 0;  ///< number of the matrix in its stack
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Computes an epilogue in `T`: float, double or a `complex_number`. The operands are of this type,
/// or of 16 bits for float. Not thread-safe.
template <class T>
class host_epilogue {
 public:
  host_epilogue(const operations::epilogue_call& call,
                const operations::epilogue_addresses& addresses)
      : call_(call), addresses_(addresses) {}

  /// Replaces sums, whose columns are `leading` elements apart, by results.
  void apply(const matrix_part& part, T* sums, std::int64_t leading) {
    // As many columns at once as stay in the cache of a core.
    constexpr std::int64_t elements_at_once = 4096;
    const auto columns_at_once =
        std::clamp<std::int64_t>(elements_at_once / part.rows, 1, part.columns);
    const bool has_bias = call_.bias == operations::bias_axis::row;
    const T* const bias_of_rows =
        has_bias ? load(addresses_.bias, part.row, part.rows, bias_) : nullptr;
    for (std::int64_t j = 0; j < part.columns; j += columns_at_once) {
      const auto columns = std::min(columns_at_once, part.columns - j);
      auto piece = part;
      piece.column += j;
      piece.columns = columns;
      compute(piece, bias_of_rows, sums + j * leading, leading);
    }
  }

  /// Computes an epilogue without products.
  void run(const matrix_part& part) {
    sums_.resize(static_cast<std::size_t>(part.rows * part.columns));
    for (std::int64_t j = 0; j < part.columns; ++j) {
      const auto position = position_of_c(part, j);
      T* const values = &sums_[static_cast<std::size_t>(j * part.rows)];
      if (call_.factor[0] == 0 && call_.factor[1] == 0) {
        std::fill_n(values, part.rows, T{});
        continue;
      }
      const T* const previous = load(addresses_.c, position, part.rows, previous_);
      const T factor = factor_of();
      for (std::int64_t i = 0; i < part.rows; ++i) {
        values[i] = operations::product(previous[i], factor);
      }
    }
    apply(part, sums_.data(), part.rows);
    for (std::int64_t j = 0; j < part.columns; ++j) {
      store(&sums_[static_cast<std::size_t>(j * part.rows)], part.rows, position_of_c(part, j));
    }
  }

 private:
  static constexpr bool is_f32 = std::is_same_v<T, float>;

  void compute(const matrix_part& part, const T* bias_of_rows, T* values, std::int64_t leading) {
    const auto rows = part.rows;
    for (std::int64_t j = 0; j < part.columns; ++j) {
      T* const column = values + j * leading;
      if (bias_of_rows != nullptr) {
        add(column, bias_of_rows, rows);
      } else if (call_.bias != operations::bias_axis::none) {
        const bool of_column = call_.bias == operations::bias_axis::column;
        add(column,
            operations::load<T>(call_.type, addresses_.bias, of_column ? part.column + j : 0),
            rows);
      }
    }
    if (leading == rows) {
      apply_function(values, rows * part.columns);
    } else {
      for (std::int64_t j = 0; j < part.columns; ++j) apply_function(values + j * leading, rows);
    }
    if (!call_.has_residual) return;
    const auto first =
        part.matrix * call_.residual_distance + part.column * call_.residual_leading + part.row;
    if (leading == rows && call_.residual_leading == rows) {
      const auto count = rows * part.columns;
      return add(values, load(addresses_.residual, first, count, previous_), count);
    }
    for (std::int64_t j = 0; j < part.columns; ++j) {
      const auto position = first + j * call_.residual_leading;
      add(values + j * leading, load(addresses_.residual, position, rows, previous_), rows);
    }
  }

  static void add(T* values, const T* added, std::int64_t count) {
    if constexpr (is_f32) {
      binary_f32(binary_function::add, values, added, count, values);
    } else {
      for (std::int64_t i = 0; i < count; ++i) values[i] = operations::sum(values[i], added[i]);
    }
  }
  static void add(T* values, T number, std::int64_t count) {
    if constexpr (is_f32) {
      affine_f32({1, number}, values, nullptr, nullptr, count, values);
    } else {
      for (std::int64_t i = 0; i < count; ++i) values[i] = operations::sum(values[i], number);
    }
  }
  void apply_function(T* values, std::int64_t count) const {
    if constexpr (!operations::is_complex_v<T>) {
      operations::with_function(call_.function, [&](auto function) {
        constexpr T alpha = operations::activation_alpha;
        constexpr T beta = operations::activation_beta;
        if constexpr (is_f32) {
          unary_f32({function.value, alpha, beta}, values, count, values);
        } else {
          for (std::int64_t i = 0; i < count; ++i) {
            values[i] = operations::apply(function.value, values[i], alpha, beta);
          }
        }
      });
    }
  }

  [[nodiscard]] T factor_of() const noexcept {
    if constexpr (operations::is_complex_v<T>) {
      using part = typename T::value_type;
      return {static_cast<part>(call_.factor[0]), static_cast<part>(call_.factor[1])};
    } else {
      return static_cast<T>(call_.factor[0]);
    }
  }
  [[nodiscard]] std::int64_t position_of_c(const matrix_part& part, std::int64_t j) const noexcept {
    return part.matrix * call_.distance + (part.column + j) * call_.leading + part.row;
  }
  /// Elements of an operand from `position` on, converted into `memory` if they are of another
  /// type.
  const T* load(const void* operand, std::int64_t position, std::int64_t count,
                std::vector<T>& memory) const {
    if constexpr (is_f32) {
      if (call_.type != operations::storage::f32) {
        memory.resize(static_cast<std::size_t>(count));
        load_f32(call_.type, static_cast<const std::uint16_t*>(operand) + position, count,
                 memory.data());
        return memory.data();
      }
    }
    return static_cast<const T*>(operand) + position;
  }
  void store(const T* values, std::int64_t count, std::int64_t position) const {
    if constexpr (is_f32) {
      if (call_.type != operations::storage::f32) {
        return store_f32(call_.type, values, count,
                         static_cast<std::uint16_t*>(addresses_.c) + position);
      }
    }
    std::copy_n(values, count, static_cast<T*>(addresses_.c) + position);
  }

  const operations::epilogue_call& call_;
  const operations::epilogue_addresses& addresses_;
  std::vector<T> bias_;
  std::vector<T> previous_;
  std::vector<T> sums_;
};

/// Computes an epilogue without products on the threads of the device.
void compute_epilogue(const operations::epilogue_call& call,
                      const operations::epilogue_addresses& addresses);

}  // namespace sluice::host
