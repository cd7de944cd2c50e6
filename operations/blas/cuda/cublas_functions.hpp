// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/gemm_call.hpp"

#include <cublas_v2.h>

#include <complex>
#include <type_traits>

namespace sluice::cuda {

// cuBLAS's names of the element types. The functions with 64-bit dimensions take every shape; for
// small shapes they launch the same kernels.
template <class T>
struct cublas_functions;
template <>
struct cublas_functions<float> {
  using value = float;
  static constexpr auto multiply = cublasSgemm_64;
  static constexpr auto multiply_stack = cublasSgemmStridedBatched_64;
  static constexpr auto multiply_batch = cublasSgemmBatched_64;
};
template <>
struct cublas_functions<double> {
  using value = double;
  static constexpr auto multiply = cublasDgemm_64;
  static constexpr auto multiply_stack = cublasDgemmStridedBatched_64;
  static constexpr auto multiply_batch = cublasDgemmBatched_64;
};
template <>
struct cublas_functions<std::complex<float>> {
  using value = cuComplex;
  static constexpr auto multiply = cublasCgemm_64;
  static constexpr auto multiply_stack = cublasCgemmStridedBatched_64;
  static constexpr auto multiply_batch = cublasCgemmBatched_64;
};
template <>
struct cublas_functions<std::complex<double>> {
  using value = cuDoubleComplex;
  static constexpr auto multiply = cublasZgemm_64;
  static constexpr auto multiply_stack = cublasZgemmStridedBatched_64;
  static constexpr auto multiply_batch = cublasZgemmBatched_64;
};

/// Whether cuBLAS takes a matrix as it is stored.
[[nodiscard]] inline cublasOperation_t cublas_operation(
    const operations::blas_matrix& matrix) noexcept {
  return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/// A number in cuBLAS's type.
template <class Value>
[[nodiscard]] Value cublas_number(const std::complex<double>& number) {
  if constexpr (std::is_floating_point_v<Value>) {
    return static_cast<Value>(number.real());
  } else {
    using part = decltype(Value::x);
    return {static_cast<part>(number.real()), static_cast<part>(number.imag())};
  }
}

}  // namespace sluice::cuda
