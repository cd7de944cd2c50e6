// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/gemm_epilogue_call.hpp"

#include <cublasLt.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::cuda {

/// What products of 8-bit floating-point numbers have beside a key, whose type is that of their
/// first factors.
struct float8_factors {
  std::int32_t second_type = 0;  ///< an `element_type`
  bool scales_first = false;
  bool scales_second = false;
};

/// The operands of a fused product.
struct fused_operands {
  const void* first = nullptr;
  const void* second = nullptr;
  const float* first_scale = nullptr;   ///< if the factors have one
  const float* second_scale = nullptr;  ///< if the factors have one
  const void* bias = nullptr;           ///< if the key has one
  const void* residual = nullptr;       ///< if the key has one
  void* c = nullptr;
};

/// An algorithm of cuBLASLt for products with a part of their epilogue. Sums of 16-bit products are
/// added in f32 to the end, those of 8 bits without fast accumulation, and the same call gives the
/// same bits. Thread-safe.
class fused_product {
 public:
  /// The algorithms that cuBLASLt proposes among those that need at most `most_workspace` bytes,
  /// best first, up to `most`.
  /// @throws error `library_failure`
  [[nodiscard]] static std::vector<fused_product> propose(cublasLtHandle_t handle,
                                                          const operations::fused_key& key,
                                                          std::size_t most_workspace,
                                                          const float8_factors& factors,
                                                          std::size_t most);

  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }
  /// Enqueues alpha · first · second + beta · C and the part of the epilogue.
  /// @return whether cuBLASLt takes the call; if not, nothing is enqueued
  /// @throws error `library_failure`
  [[nodiscard]] bool enqueue(cublasLtHandle_t handle, float alpha, float beta,
                             const fused_operands& operands, void* workspace,
                             cudaStream_t stream) const;

 private:
  fused_product(const operations::fused_key& key, const float8_factors& factors);

  operations::fused_key key_;
  float8_factors factors_;
  cublasLtMatrixLayoutOpaque_t first_{};
  cublasLtMatrixLayoutOpaque_t second_{};
  cublasLtMatrixLayoutOpaque_t c_{};
  cublasLtMatrixLayoutOpaque_t added_{};  // the residual, or the previous C
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_ = 0;
};

}  // namespace sluice::cuda
