// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/vector_product.hpp"

#include <cstddef>

namespace sluice::host {
namespace {

/// y = alpha · op(matrix) · x + beta · y
template <class T>
struct matrix_vector_product {
  CBLAS_TRANSPOSE operation;
  blasint y_size, x_size;
  const T* matrix;
  blasint leading;
  const T* x;
  blasint x_stride;
  T* y;
  blasint y_stride;

  [[nodiscard]] blasint rows() const noexcept { return operation == CblasTrans ? x_size : y_size; }
  [[nodiscard]] blasint columns() const noexcept {
    return operation == CblasTrans ? y_size : x_size;
  }
};

template <class T>
matrix_vector_product<T> vector_product_of(const product<T>& p) noexcept {
  if (p.n == 1) {
    const auto stride = p.second_operation == CblasTrans ? p.second_leading : 1;
    return {p.first_operation, p.m, p.k, p.first, p.first_leading, p.second, stride, p.c, 1};
  }
  const auto operation = p.second_operation == CblasTrans ? CblasNoTrans : CblasTrans;
  const auto stride = p.first_operation == CblasTrans ? 1 : p.first_leading;
  return {operation, p.n, p.k, p.second, p.second_leading, p.first, stride, p.c, p.c_leading};
}

void multiply(const matrix_vector_product<float>& p, float alpha, float beta) {
  cblas_sgemv(CblasColMajor, p.operation, p.rows(), p.columns(), alpha, p.matrix, p.leading, p.x,
              p.x_stride, beta, p.y, p.y_stride);
}
void multiply(const matrix_vector_product<double>& p, double alpha, double beta) {
  cblas_dgemv(CblasColMajor, p.operation, p.rows(), p.columns(), alpha, p.matrix, p.leading, p.x,
              p.x_stride, beta, p.y, p.y_stride);
}

template <class T>
void multiply_block(const product<T>& block) {
  const auto p = vector_product_of(block);
  if (block.beta != T(0)) return multiply(p, block.alpha, block.beta);
  // Some versions of OpenBLAS multiply NaN of y with 0.
  for (std::ptrdiff_t i = 0; i < p.y_size; ++i) p.y[i * p.y_stride] = T(0);
  multiply(p, block.alpha, T(1));
}

}  // namespace

void multiply_vector(const product<float>& p) {
  multiply_block(p);
}
void multiply_vector(const product<double>& p) {
  multiply_block(p);
}

}  // namespace sluice::host
