// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/cublas_handle.hpp"
#include "operations/blas/cuda/fused_product.hpp"
#include "operations/blas/cuda/loaded_products.hpp"
#include "operations/blas/cuda/mixed_products.hpp"
#include "operations/blas/cuda/product_trial.hpp"
#include "operations/blas/float8_conversion.hpp"
#include "operations/blas/scaled_gemm_functions.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"
#include "runtime/seam.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

namespace sluice::cuda {
namespace {

using operations::blas_matrix;
using operations::converted_factor;
using operations::scaled_gemm_call;

/// The least compute capability of GPUs whose tensor cores multiply numbers of 8 bits.
constexpr int tensor_core_capability = 89;
constexpr std::size_t workspace_alignment = 256;

/// a · b, or the largest number if that is less.
std::size_t bounded_product(std::size_t a, std::int64_t b) noexcept {
  std::size_t product = 0;
  return __builtin_mul_overflow(a, static_cast<std::size_t>(b), &product)
             ? std::numeric_limits<std::size_t>::max()
             : product;
}
/// The part of a workspace that `bytes` take; the largest number if there is none so large.
std::size_t aligned_part(std::size_t bytes) noexcept {
  constexpr auto most = std::numeric_limits<std::size_t>::max() / 4;
  return bytes > most
             ? most
             : (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}

/// How a factor is copied.
converted_factor copy_of(const blas_matrix& matrix, std::int64_t rows, std::int64_t columns,
                         std::int64_t count, element_type type) {
  constexpr std::int64_t step = 8;
  const auto length = matrix.transposed ? columns : rows;
  return {.matrices = matrix.distance == 0 ? 1 : count,
          .lines = matrix.transposed ? rows : columns,
          .length = length,
          .leading = matrix.leading,
          .distance = matrix.distance,
          .copy_leading = (length + step - 1) / step * step,
          .type = operations::storage_of(type)};
}
std::size_t bytes_of_copy(const converted_factor& factor) noexcept {
  const auto matrix = bounded_product(static_cast<std::size_t>(factor.copy_leading), factor.lines);
  return aligned_part(bounded_product(bounded_product(matrix, factor.matrices), 2));
}
/// The matrices of a copy, as cuBLAS sees them.
blas_matrix matrices_of(const converted_factor& factor, bool transposed) {
  return {.leading = factor.copy_leading,
          .distance = factor.matrices == 1 ? 0 : factor.lines * factor.copy_leading,
          .transposed = transposed};
}

/// The copies of the factors of a call, without addresses.
operations::float8_conversion conversion_of(const scaled_gemm_call& call) {
  const auto& p = call.products;
  operations::float8_conversion conversion;
  conversion.factors[0] = copy_of(p.first, p.m, p.k, p.count, call.first_type);
  conversion.factors[1] = copy_of(p.second, p.k, p.n, p.count, call.second_type);
  conversion.type = operations::storage_of(p.type);
  conversion.alpha = static_cast<float>(p.alpha.real());
  conversion.beta = static_cast<float>(p.beta.real());
  return conversion;
}

/// An algorithm of cuBLASLt for numbers of 8 bits, or the workspace for copies of 16 bits.
class scaled_gemm_plan final : public operation_plan {
 public:
  explicit scaled_gemm_plan(std::size_t workspace_bytes) noexcept
      : workspace_bytes_(workspace_bytes) {}
  scaled_gemm_plan(const fused_product& product, bool is_fused) noexcept
      : product_(product), workspace_bytes_(product.workspace_bytes()), is_fused_(is_fused) {}

  std::size_t bytes() const noexcept override { return sizeof *this; }
  std::size_t workspace_bytes() const noexcept override { return workspace_bytes_; }
  // `gemm_call` has those of the products.
  std::size_t commands() const noexcept override { return product_ ? 0 : 1; }

  [[nodiscard]] const std::optional<fused_product>& product() const noexcept { return product_; }
  /// Whether the algorithm computes the part of the epilogue that the key has.
  [[nodiscard]] bool is_fused() const noexcept { return is_fused_; }

 private:
  std::optional<fused_product> product_;
  std::size_t workspace_bytes_ = 0;
  bool is_fused_ = false;
};

void enqueue_fused(lane_libraries& libraries, const fused_product& product,
                   const scaled_gemm_call& call, const launch_of<scaled_gemm>& launch) {
  const auto& p = call.products;
  const auto* const a = launch.get<const void>(&scaled_gemm::a);
  const auto* const b = launch.get<const void>(&scaled_gemm::b);
  const auto* const a_scale = launch.get<const float>(&scaled_gemm::a_scale);
  const auto* const b_scale = launch.get<const float>(&scaled_gemm::b_scale);
  const fused_operands operands{.first = p.swapped ? b : a,
                                .second = p.swapped ? a : b,
                                .first_scale = p.swapped ? b_scale : a_scale,
                                .second_scale = p.swapped ? a_scale : b_scale,
                                .bias = launch.get<const void>(&scaled_gemm::bias),
                                .residual = launch.get<const void>(&scaled_gemm::residual),
                                .c = launch.get<void>(&scaled_gemm::c)};
  const bool is_taken =
      product.enqueue(libraries.get<cublas_handle>().get_lt(), static_cast<float>(p.alpha.real()),
                      static_cast<float>(p.beta.real()), operands, launch.workspace(),
                      reinterpret_cast<cudaStream_t>(libraries.stream().native()));
  if (!is_taken) {
    throw error(errc::library_failure, "scaled_gemm: cuBLASLt does not take its own algorithm");
  }
}

/// Copies the factors as numbers of 16 bits and multiplies these.
void enqueue_converted(lane_libraries& libraries, const scaled_gemm_call& call,
                       const launch_of<scaled_gemm>& launch) {
  auto conversion = conversion_of(call);
  auto& [first, second] = conversion.factors;
  const auto* const a = launch.get<const void>(&scaled_gemm::a);
  const auto* const b = launch.get<const void>(&scaled_gemm::b);
  auto* const workspace = static_cast<std::byte*>(launch.workspace());
  conversion.numbers = reinterpret_cast<float*>(workspace);
  conversion.scales[0] = launch.get<const float>(&scaled_gemm::a_scale);
  conversion.scales[1] = launch.get<const float>(&scaled_gemm::b_scale);
  auto products = call.products;
  first.elements = products.swapped ? b : a;
  second.elements = products.swapped ? a : b;
  first.copy = workspace + workspace_alignment;
  second.copy = workspace + workspace_alignment + bytes_of_copy(first);
  products.first = matrices_of(first, products.first.transposed);
  products.second = matrices_of(second, products.second.transposed);
  check(static_cast<cudaError_t>(
      operations::launch_float8_conversion(conversion, libraries.stream().native())));
  multiply_mixed_by_device_numbers(libraries.get<cublas_handle>().get(), products, first.copy,
                                   second.copy, launch.get<void>(&scaled_gemm::c),
                                   conversion.numbers);
}

}  // namespace

void prepare_scaled_gemm(lane_libraries& libraries) {
  (void)libraries.get<cublas_handle>();
  (void)libraries.get<loaded_products>();
  (void)libraries.get<loaded_kernels<operations::load_float8_conversion>>();
  (void)libraries.get<loaded_kernels<operations::load_epilogue>>();
}

std::shared_ptr<const operation_plan> make_scaled_gemm_plan(lane_libraries& libraries,
                                                            const scaled_gemm_call& call) {
  const auto& key = call.key;
  if (key.product.is_empty()) return std::make_shared<scaled_gemm_plan>(0);
  auto& device = libraries.runtime().device();
  const auto capability = device.info().compute_capability;
  if (key.suits_tensor_cores != 0 && capability >= tensor_core_capability) {
    const detail::library_call library_scope(device.id());
    device.require_usable();
    const current_device_scope current(device);
    auto plain = key.product;
    plain.adds_bias = plain.function = plain.adds_residual = 0;
    plain.residual_leading = plain.residual_distance = 0;
    const float8_factors factors{.second_type = key.second_type,
                                 .scales_first = key.scales_first != 0,
                                 .scales_second = key.scales_second != 0};
    for (const bool is_fused : {true, false}) {
      if (const auto product = find_product(libraries, is_fused ? key.product : plain, factors)) {
        return std::make_shared<scaled_gemm_plan>(*product, is_fused);
      }
    }
  }
  const auto conversion = conversion_of(call);
  return std::make_shared<scaled_gemm_plan>(workspace_alignment +
                                            bytes_of_copy(conversion.factors[0]) +
                                            bytes_of_copy(conversion.factors[1]));
}

void enqueue_scaled_gemm(lane_libraries& libraries, const scaled_gemm_call& call,
                         const launch_of<scaled_gemm>& launch) {
  const auto& p = call.products;
  if (p.m == 0 || p.n == 0 || p.count == 0) return;
  const current_device_scope current(libraries.runtime().device());
  auto rest = call.epilogue;
  if (p.multiplies) {
    const auto& plan = launch.plan<scaled_gemm_plan>();
    if (const auto& product = plan.product()) {
      enqueue_fused(libraries, *product, call, launch);
      if (plan.is_fused()) rest = remaining_epilogue(rest, call.key.product);
    } else {
      enqueue_converted(libraries, call, launch);
    }
  }
  if (rest.is_empty()) return;
  const operations::epilogue_addresses addresses{launch.get<void>(&scaled_gemm::c),
                                                 launch.get<const void>(&scaled_gemm::bias),
                                                 launch.get<const void>(&scaled_gemm::residual)};
  check(static_cast<cudaError_t>(
      operations::launch_epilogue(rest, addresses, libraries.stream().native())));
}

}  // namespace sluice::cuda
