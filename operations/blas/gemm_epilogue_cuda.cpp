// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/check_cublas.hpp"
#include "operations/blas/cuda/cublas_handle.hpp"
#include "operations/blas/cuda/loaded_products.hpp"
#include "operations/blas/cuda/product_trial.hpp"
#include "operations/blas/gemm_functions.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"
#include "runtime/seam.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace sluice::cuda {
namespace {

using operations::gemm_epilogue_call;

/// The algorithm for the part of an epilogue that cuBLASLt computes, if there is any.
class gemm_epilogue_plan final : public operation_plan {
 public:
  explicit gemm_epilogue_plan(std::optional<fused_product> product) noexcept
      : product_(std::move(product)) {}

  std::size_t bytes() const noexcept override { return sizeof *this; }
  std::size_t workspace_bytes() const noexcept override {
    return product_ ? product_->workspace_bytes() : 0;
  }
  std::size_t commands() const noexcept override { return 0; }  // `gemm_call` has those of products

  [[nodiscard]] const std::optional<fused_product>& product() const noexcept { return product_; }

 private:
  std::optional<fused_product> product_;
};

/// Enqueues products with a part of their epilogue. False if cuBLASLt does not compute them.
bool enqueue_fused(lane_libraries& libraries, const gemm_epilogue_call& call,
                   const launch_of<gemm>& launch) {
  const auto& product = launch.plan<gemm_epilogue_plan>().product();
  if (!product) return false;
  const auto& p = call.products;
  const auto* const a = launch.get<const void>(&gemm::a);
  const auto* const b = launch.get<const void>(&gemm::b);
  const fused_operands operands{.first = p.swapped ? b : a,
                                .second = p.swapped ? a : b,
                                .bias = launch.get<const void>(&gemm::bias),
                                .residual = launch.get<const void>(&gemm::residual),
                                .c = launch.get<void>(&gemm::c)};
  return product->enqueue(libraries.get<cublas_handle>().get_lt(),
                          static_cast<float>(p.alpha.real()), static_cast<float>(p.beta.real()),
                          operands, launch.workspace(),
                          reinterpret_cast<cudaStream_t>(libraries.stream().native()));
}

}  // namespace

void prepare_gemm_epilogue(lane_libraries& libraries) {
  (void)libraries.get<cublas_handle>();
  (void)libraries.get<loaded_kernels<operations::load_epilogue>>();
}

std::shared_ptr<const operation_plan> make_gemm_epilogue_plan(lane_libraries& libraries,
                                                              const gemm_epilogue_call& call) {
  std::optional<fused_product> product;
  if (!call.key.is_empty()) {
    auto& device = libraries.runtime().device();
    const detail::library_call library_scope(device.id());
    device.require_usable();
    const current_device_scope current(device);
    product = find_product(libraries, call.key);
  }
  if (!product) (void)libraries.get<loaded_products>();
  return std::make_shared<gemm_epilogue_plan>(std::move(product));
}

void enqueue_gemm_epilogue(lane_libraries& libraries, const gemm_epilogue_call& call,
                           const launch_of<gemm>& launch) {
  const auto& p = call.products;
  if (p.m == 0 || p.n == 0 || p.count == 0) return;
  const current_device_scope current(libraries.runtime().device());
  auto rest = call.epilogue;
  if (p.multiplies) {
    if (enqueue_fused(libraries, call, launch)) {
      rest = call.remaining();
    } else {
      enqueue_gemm(libraries, p, launch);
    }
  }
  if (rest.is_empty()) return;
  const operations::epilogue_addresses addresses{launch.get<void>(&gemm::c),
                                                 launch.get<const void>(&gemm::bias),
                                                 launch.get<const void>(&gemm::residual)};
  check(static_cast<cudaError_t>(
      operations::launch_epilogue(rest, addresses, libraries.stream().native())));
}

}  // namespace sluice::cuda
