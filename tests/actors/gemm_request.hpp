// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/blas_reference.hpp"

#include <sluice/actors/blas.hpp>

#include <utility>

namespace sluice::test {

/// The request for `p` with operands in device memory. Without `c`, the actor allocates C.
template <class T>
blas_gemm<T> gemm_request(const gemm_problem<T>& p, gpu_ref<T> a, gpu_ref<T> b, gpu_ref<T> c = {}) {
  return {.layout = p.shape.layout,
          .transpose_a = p.shape.transpose_a,
          .transpose_b = p.shape.transpose_b,
          .m = p.shape.m,
          .n = p.shape.n,
          .k = p.shape.k,
          .alpha = p.alpha,
          .a = std::move(a),
          .lda = p.shape.lda,
          .b = std::move(b),
          .ldb = p.shape.ldb,
          .beta = p.beta,
          .c = std::move(c),
          .ldc = p.shape.ldc};
}

}  // namespace sluice::test
