// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/gemm_epilogue_call.hpp"

#include <cublasLt.h>

#include <complex>
#include <cstddef>
#include <optional>

namespace sluice::cuda {

/// The operands of a fused product.
struct fused_operands {
  const void* first = nullptr;
  const void* second = nullptr;
  const void* bias = nullptr;      ///< if the key has one
  const void* residual = nullptr;  ///< if the key has one
  void* c = nullptr;
};

/// An algorithm of cuBLASLt for products with a part of their epilogue. Sums of 16-bit products are
/// added in f32 to the end, and the same call gives the same bits. Thread-safe.
class fused_product {
 public:
  /// The algorithm that cuBLASLt prefers among those that need at most `most_workspace` bytes.
  /// Nothing if it has none.
  /// @throws error `library_failure`
  [[nodiscard]] static std::optional<fused_product> find(cublasLtHandle_t handle,
                                                         const operations::fused_key& key,
                                                         std::size_t most_workspace);

  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }
  /// Enqueues alpha · first · second + beta · C and the part of the epilogue.
  /// @return whether cuBLASLt takes the call; if not, nothing is enqueued
  /// @throws error `library_failure`
  [[nodiscard]] bool enqueue(cublasLtHandle_t handle, float alpha, float beta,
                             const fused_operands& operands, void* workspace,
                             cudaStream_t stream) const;

 private:
  explicit fused_product(const operations::fused_key& key);

  operations::fused_key key_;
  cublasLtMatrixLayoutOpaque_t first_{};
  cublasLtMatrixLayoutOpaque_t second_{};
  cublasLtMatrixLayoutOpaque_t c_{};
  cublasLtMatrixLayoutOpaque_t added_{};  // the residual, or the previous C
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_ = 0;
};

}  // namespace sluice::cuda
