// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/fused_product.hpp"

#include "operations/blas/cuda/check_cublas.hpp"

#include <cstdint>
#include <limits>

namespace sluice::cuda {
namespace {

using operations::fused_key;

cudaDataType type_of(std::int32_t type) noexcept {
  switch (static_cast<element_type>(type)) {
    case element_type::e4m3:
      return CUDA_R_8F_E4M3;
    case element_type::e5m2:
      return CUDA_R_8F_E5M2;
    case element_type::f16:
      return CUDA_R_16F;
    case element_type::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}
bool is_float8(std::int32_t type) noexcept {
  return static_cast<element_type>(type) == element_type::e4m3 ||
         static_cast<element_type>(type) == element_type::e5m2;
}
std::int64_t size_of_type(std::int32_t type) noexcept {
  return static_cast<std::int64_t>(size_of(static_cast<element_type>(type)));
}

cublasLtMatrixLayoutOpaque_t layout_of(const fused_key& key, std::int32_t type, std::int64_t rows,
                                       std::int64_t columns, std::int64_t leading,
                                       std::int64_t distance) {
  cublasLtMatrixLayoutOpaque_t layout{};
  check_cublas(cublasLtMatrixLayoutInit(&layout, type_of(type), static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns), leading),
               "cublasLtMatrixLayoutInit");
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    check_cublas(cublasLtMatrixLayoutSetAttribute(&layout, attribute, &value, sizeof value),
                 "cublasLtMatrixLayoutSetAttribute");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(key.count));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, distance);
  return layout;
}

cublasLtEpilogue_t epilogue_of(const fused_key& key) noexcept {
  const bool adds_bias = key.adds_bias != 0;
  switch (static_cast<activation>(key.function)) {
    case activation::relu:
      return adds_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case activation::gelu_tanh:
      return adds_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      return adds_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

cublasLtMatmulDescOpaque_t describe(const fused_key& key, const float8_factors& factors,
                                    const fused_operands& operands) {
  cublasLtMatmulDescOpaque_t description{};
  const auto computation =
      key.may_use_tf32 != 0 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_cublas(cublasLtMatmulDescInit(&description, computation, CUDA_R_32F),
               "cublasLtMatmulDescInit");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check_cublas(cublasLtMatmulDescSetAttribute(&description, attribute, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  };
  const auto transposition = [](std::int32_t is_transposed) {
    return is_transposed != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, transposition(key.first_is_transposed));
  set(CUBLASLT_MATMUL_DESC_TRANSB, transposition(key.second_is_transposed));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(key));
  if (key.adds_bias != 0) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (!is_float8(key.type)) return description;
  set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{0});
  if (key.adds_bias != 0) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type_of(key.c_type)));
  }
  const auto set_scale = [&](cublasLtMatmulDescAttributes_t attribute, const void* scale) {
    set(attribute, scale);
  };
  if (factors.scales_first) {
    set_scale(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.first_scale);
  }
  if (factors.scales_second) {
    set_scale(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.second_scale);
  }
  return description;
}

/// The type of the second factors, an `element_type`.
std::int32_t type_of_second(const fused_key& key, const float8_factors& factors) noexcept {
  return is_float8(key.type) ? factors.second_type : key.type;
}

/// The alignment of all columns of a matrix that begins at a multiple of `fused_alignment` bytes.
std::uint32_t alignment_of(std::int32_t type, std::int64_t leading, std::int64_t distance) {
  auto alignment = static_cast<std::int64_t>(operations::fused_alignment);
  while (leading * size_of_type(type) % alignment != 0 ||
         distance * size_of_type(type) % alignment != 0) {
    alignment /= 2;
  }
  return static_cast<std::uint32_t>(alignment);
}

cublasLtMatmulPreferenceOpaque_t preference_of(const fused_key& key, const float8_factors& factors,
                                               std::size_t most_workspace) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  check_cublas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_cublas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{most_workspace});
  // Parts of a sum are added in f32 and not in the type of C.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
      alignment_of(key.type, key.first_leading, key.first_distance));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      alignment_of(type_of_second(key, factors), key.second_leading, key.second_distance));
  const auto c_alignment = alignment_of(key.c_type, key.c_leading, key.c_distance);
  const bool adds_residual = key.adds_residual != 0;
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      adds_residual ? alignment_of(key.c_type, key.residual_leading, key.residual_distance)
                    : c_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c_alignment);
  return preference;
}

}  // namespace

fused_product::fused_product(const fused_key& key, const float8_factors& factors)
    : key_(key), factors_(factors) {
  const auto factor = [&](std::int32_t type, bool is_transposed, std::int64_t rows,
                          std::int64_t columns, std::int64_t leading, std::int64_t distance) {
    return layout_of(key, type, is_transposed ? columns : rows, is_transposed ? rows : columns,
                     leading, distance);
  };
  first_ = factor(key.type, key.first_is_transposed != 0, key.m, key.k, key.first_leading,
                  key.first_distance);
  second_ = factor(type_of_second(key, factors), key.second_is_transposed != 0, key.k, key.n,
                   key.second_leading, key.second_distance);
  c_ = layout_of(key, key.c_type, key.m, key.n, key.c_leading, key.c_distance);
  added_ = key.adds_residual != 0 ? layout_of(key, key.c_type, key.m, key.n, key.residual_leading,
                                              key.residual_distance)
                                  : c_;
}

std::vector<fused_product> fused_product::propose(cublasLtHandle_t handle, const fused_key& key,
                                                  std::size_t most_workspace,
                                                  const float8_factors& factors, std::size_t most) {
  fused_product product(key, factors);
  // The algorithm does not depend on these addresses, which must not be null.
  const auto* const address =
      reinterpret_cast<const float*>(std::uintptr_t{operations::fused_alignment});  // NOLINT
  auto description =
      describe(key, factors, {.first_scale = address, .second_scale = address, .bias = address});
  auto preference = preference_of(key, factors, most_workspace);
  std::vector<cublasLtMatmulHeuristicResult_t> results(most);
  int count = 0;
  const auto status = cublasLtMatmulAlgoGetHeuristic(
      handle, &description, &product.first_, &product.second_, &product.added_, &product.c_,
      &preference, static_cast<int>(most), results.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  results.resize(static_cast<std::size_t>(count));
  std::vector<fused_product> products;
  for (const auto& result : results) {
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    product.algorithm_ = result.algo;
    product.workspace_bytes_ = result.workspaceSize;
    products.push_back(product);
  }
  return products;
}

bool fused_product::enqueue(cublasLtHandle_t handle, float alpha, float beta,
                            const fused_operands& operands, void* workspace,
                            cudaStream_t stream) const {
  auto description = describe(key_, factors_, operands);
  auto first = first_;
  auto second = second_;
  auto c = c_;
  auto added = added_;
  const bool adds_residual = key_.adds_residual != 0;
  const float factor = adds_residual ? 1 : beta;
  const auto status =
      cublasLtMatmul(handle, &description, &alpha, operands.first, &first, operands.second, &second,
                     &factor, adds_residual ? operands.residual : operands.c, &added, operands.c,
                     &c, &algorithm_, workspace, workspace_bytes_, stream);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check_cublas(status, "cublasLtMatmul");
  return true;
}

}  // namespace sluice::cuda
