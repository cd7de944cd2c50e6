// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/check_cublas.hpp"
#include "operations/blas/cuda/cublas_functions.hpp"
#include "operations/blas/cuda/cublas_handle.hpp"
#include "operations/blas/cuda/mixed_products.hpp"
#include "operations/blas/cuda/pointer_tables.hpp"
#include "operations/blas/gemm_functions.hpp"
#include "operations/elementwise/map_functions.hpp"

#include <complex>
#include <cstdint>

namespace sluice::cuda {
namespace {

using operations::gemm_call;
using operations::scaling_of;

template <class T>
void run(cublasHandle_t handle, const gemm_call& call, const launch_of<gemm>& launch) {
  using functions = cublas_functions<T>;
  using value = typename functions::value;
  const auto* const a = launch.get<const value>(&gemm::a);
  const auto* const b = launch.get<const value>(&gemm::b);
  auto* const c = launch.get<value>(&gemm::c);
  const auto alpha = cublas_number<value>(call.alpha);
  const auto beta = cublas_number<value>(call.beta);
  const auto* const first = call.swapped ? b : a;
  const auto* const second = call.swapped ? a : b;
  if (call.count == 1) {
    check_cublas(
        functions::multiply(handle, cublas_operation(call.first), cublas_operation(call.second),
                            call.m, call.n, call.k, &alpha, first, call.first.leading, second,
                            call.second.leading, &beta, c, call.c.leading),
        "cublasgemm");
  } else {
    check_cublas(functions::multiply_stack(handle, cublas_operation(call.first),
                                           cublas_operation(call.second), call.m, call.n, call.k,
                                           &alpha, first, call.first.leading, call.first.distance,
                                           second, call.second.leading, call.second.distance, &beta,
                                           c, call.c.leading, call.c.distance, call.count),
                 "cublasgemmStridedBatched");
  }
}

}  // namespace

std::string blas_version() {
  const auto property = [](libraryPropertyType type) {
    int value = 0;
    check_cublas(cublasGetProperty(type, &value), "cublasGetProperty");
    return std::to_string(value);
  };
  return property(MAJOR_VERSION) + '.' + property(MINOR_VERSION) + '.' + property(PATCH_LEVEL);
}

void prepare_blas(lane_libraries& libraries) {
  (void)libraries.get<cublas_handle>();
  (void)libraries.get<pointer_tables>();
  prepare_map<operations::scale_call>(libraries);
}

void enqueue_gemm(lane_libraries& libraries, const gemm_call& call, const launch_of<gemm>& launch) {
  if (call.m == 0 || call.n == 0 || call.count == 0) return;
  if (!call.multiplies) {
    if (call.beta == 1.0) return;
    void* const c = launch.get<void>(&gemm::c);
    return enqueue_map(libraries, scaling_of(call), {c, {call.beta == 0.0 ? nullptr : c}});
  }
  const auto& blas = libraries.get<cublas_handle>();
  const current_device_scope current(libraries.runtime().device());
  if (is_mixed(call)) {
    const void* const a = launch.get<const void>(&gemm::a);
    const void* const b = launch.get<const void>(&gemm::b);
    return multiply_mixed(blas.get(), call, call.swapped ? b : a, call.swapped ? a : b,
                          launch.get<void>(&gemm::c));
  }
  switch (call.type) {
    case element_type::f32:
      return run<float>(blas.get(), call, launch);
    case element_type::f64:
      return run<double>(blas.get(), call, launch);
    case element_type::c64:
      return run<std::complex<float>>(blas.get(), call, launch);
    default:
      return run<std::complex<double>>(blas.get(), call, launch);
  }
}

}  // namespace sluice::cuda
