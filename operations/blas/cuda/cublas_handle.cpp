// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/cublas_handle.hpp"

#include "operations/blas/cuda/check_cublas.hpp"
#include "operations/blas/cuda/cublas_functions.hpp"
#include "operations/blas/cuda/mixed_products.hpp"
#include "operations/capture_lock.hpp"
#include "operations/capture_scope.hpp"

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace sluice::cuda {

std::size_t recommended_workspace(int compute_capability) noexcept {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  return (compute_capability >= 90 ? 32 : 4) * mebibyte;
}

cublas_handle::cublas_handle(device_runtime& runtime, stream_ref stream)
    : device_(runtime.device()), workspace_(runtime, stream, "cublas workspace") {
  const detail::library_call call(device_.id());
  device_.require_usable();
  const current_device_scope current(device_);
  const auto workspace_bytes = recommended_workspace(device_.info().compute_capability);
  check_cublas(cublasCreate(&handle_), "cublasCreate");
  try {
    check_cublas(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_HOST), "cublasSetPointerMode");
    // Without CUBLAS_TF32_TENSOR_OP_MATH no f32 product is computed in TF32 unless its call asks
    // for it. Sums of 16-bit products are added in f32 to the end.
    check_cublas(cublasSetMathMode(handle_, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                 "cublasSetMathMode");
    check_cublas(cublasSetAtomicsMode(handle_, CUBLAS_ATOMICS_NOT_ALLOWED), "cublasSetAtomicsMode");
    if (!operations::capture_scope::is_open()) warm_up(runtime, workspace_bytes);
    workspace_.require(workspace_bytes);
    bind(stream, workspace_);
  } catch (...) {
    destroy();
    throw;
  }
}

cublas_handle::~cublas_handle() {
  const detail::library_call call(device_.id());
  const current_device_scope current(device_);
  destroy();
}

void cublas_handle::bind(stream_ref stream, const operations::workspace& scratch) {
  // Setting the stream resets the workspace, so it comes first.
  check_cublas(cublasSetStream(handle_, reinterpret_cast<cudaStream_t>(stream.native())),
               "cublasSetStream");
  check_cublas(cublasSetWorkspace(handle_, scratch.address(), scratch.bytes()),
               "cublasSetWorkspace");
}

void cublas_handle::warm_up(device_runtime& runtime, std::size_t workspace_bytes) {
  // The lane's stream may hold launches of other libraries, so the kernels are loaded apart, with a
  // workspace of that stream: memory belongs to the stream that it was allocated for.
  const auto apart = runtime.create_stream();
  operations::workspace scratch(runtime, apart, "cublas warm-up");
  scratch.require(workspace_bytes);
  bind(apart, scratch);
  warm_up<float>(runtime, apart);
  warm_up<double>(runtime, apart);
  warm_up<std::complex<float>>(runtime, apart);
  warm_up<std::complex<double>>(runtime, apart);
  warm_up_mixed(runtime, apart);
  apart.ref().synchronize();
}

template <class T>
void cublas_handle::warm_up(device_runtime& runtime, stream_ref stream) {
  using functions = cublas_functions<T>;
  using value = typename functions::value;
  constexpr std::int64_t order = 64;
  constexpr std::int64_t count = 2;
  constexpr std::int64_t elements = order * order;
  operations::workspace operands(runtime, stream, "cublas warm-up");
  operands.require(3 * count * elements * sizeof(value));
  operations::workspace tables(runtime, stream, "cublas warm-up");
  tables.require(3 * count * sizeof(value*));
  auto* const a = static_cast<value*>(operands.address());
  auto* const b = a + count * elements;
  auto* const c = b + count * elements;
  const unsigned char nothing = 0;
  device_.fill(a, &nothing, 1, operands.bytes(), stream.native());
  const value beta{};
  const auto alpha = cublas_number<value>(1);
  check_cublas(functions::multiply(handle_, CUBLAS_OP_N, CUBLAS_OP_N, order, order, order, &alpha,
                                   a, order, b, order, &beta, c, order),
               "cublasgemm");
  check_cublas(functions::multiply_stack(handle_, CUBLAS_OP_N, CUBLAS_OP_N, order, order, order,
                                         &alpha, a, order, elements, b, order, elements, &beta, c,
                                         order, elements, count),
               "cublasgemmStridedBatched");
  // A batch of two, by a table of addresses behind the operands.
  auto** const table = static_cast<value**>(tables.address());
  const std::array<value*, 6> addresses{a, a + elements, b, b + elements, c, c + elements};
  device_.copy(table, addresses.data(), sizeof(addresses), copy_direction::host_to_device,
               stream.native());
  stream.synchronize();  // before the addresses go
  check_cublas(
      functions::multiply_batch(handle_, CUBLAS_OP_N, CUBLAS_OP_N, order, order, order, &alpha,
                                table, order, table + 2, order, &beta, table + 4, order, count),
      "cublasgemmBatched");
}

void cublas_handle::warm_up_mixed(device_runtime& runtime, stream_ref stream) {
  constexpr std::int64_t order = 64;
  constexpr std::int64_t elements = order * order;
  operations::workspace operands(runtime, stream, "cublas warm-up");
  operands.require(3 * elements * sizeof(float));
  auto* const a = static_cast<float*>(operands.address());
  const unsigned char nothing = 0;
  device_.fill(a, &nothing, 1, operands.bytes(), stream.native());
  operations::gemm_call call{.m = order, .n = order, .k = order};
  call.first.leading = call.second.leading = call.c.leading = order;
  for (const auto type : {element_type::f16, element_type::bf16}) {
    call.type = call.c_type = type;
    multiply_mixed(handle_, call, a, a + elements, a + 2 * elements);
  }
}

void cublas_handle::destroy() noexcept {
  // After a fault cuBLAS's own teardown can abort the process; the handle is lost with the device.
  if (handle_ == nullptr || device_.lost()) return;
  const auto no_capture = operations::capture_lock();
  if (const cublasStatus_t status = cublasDestroy(handle_); status != CUBLAS_STATUS_SUCCESS) {
    std::fprintf(stderr, "sluice: cublasDestroy: %s\n", cublasGetStatusString(status));
  }
  handle_ = nullptr;
}

}  // namespace sluice::cuda
