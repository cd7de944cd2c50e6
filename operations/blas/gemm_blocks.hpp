// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/epilogue_call.hpp"
#include "operations/blas/gemm_call.hpp"

#include <sluice/operations/operation.hpp>

#include <cblas.h>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// Products on the host device: calls of OpenBLAS, and the blocks of results that are computed at
// once.
namespace sluice::host {

using operations::blas_matrix;
using operations::gemm_call;

inline CBLAS_TRANSPOSE operation(const blas_matrix& m) noexcept {
  return m.transposed ? CblasTrans : CblasNoTrans;
}

/// One product of a stack.
template <class T>
struct product {
  CBLAS_TRANSPOSE first_operation;
  CBLAS_TRANSPOSE second_operation;
  blasint m, n, k;
  T alpha;
  const T* first;
  blasint first_leading;
  const T* second;
  blasint second_leading;
  T beta;
  T* c;
  blasint c_leading;
};

inline void multiply(const product<float>& p) {
  cblas_sgemm(CblasColMajor, p.first_operation, p.second_operation, p.m, p.n, p.k, p.alpha, p.first,
              p.first_leading, p.second, p.second_leading, p.beta, p.c, p.c_leading);
}
inline void multiply(const product<double>& p) {
  cblas_dgemm(CblasColMajor, p.first_operation, p.second_operation, p.m, p.n, p.k, p.alpha, p.first,
              p.first_leading, p.second, p.second_leading, p.beta, p.c, p.c_leading);
}
inline void multiply(const product<std::complex<float>>& p) {
  cblas_cgemm(CblasColMajor, p.first_operation, p.second_operation, p.m, p.n, p.k, &p.alpha,
              p.first, p.first_leading, p.second, p.second_leading, &p.beta, p.c, p.c_leading);
}
inline void multiply(const product<std::complex<double>>& p) {
  cblas_zgemm(CblasColMajor, p.first_operation, p.second_operation, p.m, p.n, p.k, &p.alpha,
              p.first, p.first_leading, p.second, p.second_leading, &p.beta, p.c, p.c_leading);
}

/// The bytes from the first to the last element of one stored matrix.
template <class T>
std::size_t stored_bytes(const blas_matrix& m, std::int64_t rows, std::int64_t columns) {
  const auto lines = m.transposed ? rows : columns;
  const auto length = m.transposed ? columns : rows;
  return static_cast<std::size_t>((lines - 1) * m.leading + length) * sizeof(T);
}

/// Whether a product has one row or one column.
inline bool is_vector_product(const gemm_call& call) noexcept {
  return call.m == 1 || call.n == 1;
}

/// The blocks of the results of a stack that are computed at once. They depend on the size of one
/// product alone, so it has the same bits in every stack.
struct result_blocks {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t down;    // blocks below each other in one product
  std::int64_t across;  // blocks beside each other

  template <class T>
  static result_blocks of(const gemm_call& call) noexcept {
    // OpenBLAS reorders the operands of each block anew, so smaller blocks are slower: these by up
    // to 4 %. Its products of a matrix and a vector of real numbers read each element of the matrix
    // once, in any block.
    const bool is_vector = is_vector_product(call) && std::is_floating_point_v<T>;
    const double enough_products = is_vector ? 1 << 19 : 1 << 23;
    constexpr std::int64_t narrow = 128;
    constexpr std::int64_t low = 256;
    const double products_of_element = static_cast<double>(call.k) * cost_of_product<T>;
    auto rows = call.m;
    auto columns = call.n;
    while (static_cast<double>(rows) * static_cast<double>(columns) * products_of_element >
           enough_products) {
      if (columns > narrow && columns >= rows / 2) {
        columns = half(columns);
      } else if (rows > low) {
        rows = half(rows);
      } else {
        break;
      }
    }
    return {rows, columns, (call.m + rows - 1) / rows, (call.n + columns - 1) / columns};
  }
  /// In products of f32.
  template <class T>
  static constexpr double cost_of_product = (sizeof(T) / sizeof(float)) *
                                            (std::is_floating_point_v<T> ? 1.0 : 2.0);
  [[nodiscard]] std::int64_t in_product() const noexcept { return down * across; }

 private:
  static std::int64_t half(std::int64_t extent) noexcept { return (extent / 2 + 15) / 16 * 16; }
};

/// The address of an element of a matrix.
template <class T>
T* element_address(T* first, const blas_matrix& m, std::int64_t row, std::int64_t column) noexcept {
  return first + (m.transposed ? row * m.leading + column : column * m.leading + row);
}

template <class T>
T factor(const std::complex<double>& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value.real());
  } else {
    return static_cast<T>(value);
  }
}

/// Computes products of integers, and zeros where there are none.
void compute_integers(const gemm_call& call, const launch_of<gemm>& launch);

/// What follows products; nothing without a call.
struct product_epilogue {
  const operations::epilogue_call* call = nullptr;
  operations::epilogue_addresses addresses{};
};

/// Products of factors of 8 or 16 bits, which are computed in f32.
struct converted_product {
  const gemm_call& call;
  const void* first = nullptr;
  const void* second = nullptr;
  void* c = nullptr;
  element_type first_type = element_type::f16;
  element_type second_type = element_type::f16;
  float alpha = 1;  ///< instead of that of the call
};
/// Computes such products.
void compute_converted(const converted_product& product, const product_epilogue& epilogue);

}  // namespace sluice::host
