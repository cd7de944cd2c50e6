// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/check_cublas.hpp"
#include "operations/blas/cuda/cublas_functions.hpp"
#include "operations/blas/cuda/cublas_handle.hpp"
#include "operations/blas/cuda/loaded_products.hpp"
#include "operations/blas/cuda/mixed_products.hpp"
#include "operations/blas/cuda/pointer_tables.hpp"
#include "operations/blas/gemm_functions.hpp"
#include "operations/blas/integer_product.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"
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

/// The bytes of a factor.
/// @param is_first the sums go along its rows; otherwise along its columns
operations::integer_factor factor_of(const operations::blas_matrix& matrix, const void* elements,
                                     bool is_first, bool is_unsigned) {
  const bool has_terms_beside = matrix.transposed == is_first;
  return {elements, has_terms_beside ? matrix.leading : 1, has_terms_beside ? 1 : matrix.leading,
          matrix.distance, is_unsigned};
}

void enqueue_integers(lane_libraries& libraries, const gemm_call& call,
                      const launch_of<gemm>& launch) {
  const current_device_scope current(libraries.runtime().device());
  const auto* const a = launch.get<const void>(&gemm::a);
  const auto* const b = launch.get<const void>(&gemm::b);
  auto* const c = launch.get<std::int32_t>(&gemm::c);
  const auto* const first = call.swapped ? b : a;
  const auto* const second = call.swapped ? a : b;
  if (call.multiplies &&
      multiply_integers(libraries.get<cublas_handle>().get(), call, first, second, c)) {
    return;
  }
  const bool is_unsigned = call.type == element_type::u8;
  const operations::integer_product product{
      .m = call.m,
      .n = call.n,
      .k = call.multiplies ? call.k : 0,
      .count = call.count,
      .first = factor_of(call.first, first, true, is_unsigned && !call.swapped),
      .second = factor_of(call.second, second, false, is_unsigned && call.swapped),
      .c = c,
      .c_leading = call.c.leading,
      .c_distance = call.c.distance,
      .adds = call.beta != 0.0};
  check(static_cast<cudaError_t>(
      operations::launch_integer_product(product, libraries.stream().native())));
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
  (void)libraries.get<loaded_products>();
  (void)libraries.get<pointer_tables>();
  (void)libraries.get<loaded_kernels<operations::load_integer_product>>();
  prepare_map<operations::scale_call>(libraries);
}

void enqueue_gemm(lane_libraries& libraries, const gemm_call& call, const launch_of<gemm>& launch) {
  if (call.m == 0 || call.n == 0 || call.count == 0) return;
  if (!call.multiplies && call.beta == 1.0) return;
  if (call.is_integer()) return enqueue_integers(libraries, call, launch);
  if (!call.multiplies) {
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
