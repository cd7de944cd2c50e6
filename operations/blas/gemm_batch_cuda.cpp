// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/check_cublas.hpp"
#include "operations/blas/cuda/cublas_functions.hpp"
#include "operations/blas/cuda/cublas_handle.hpp"
#include "operations/blas/cuda/mixed_products.hpp"
#include "operations/blas/cuda/pointer_tables.hpp"
#include "operations/blas/gemm_functions.hpp"

#include <complex>
#include <cstddef>

namespace sluice::cuda {
namespace {

using operations::gemm_call;

template <class T>
void run(cublasHandle_t handle, const gemm_call& call, void** table, std::size_t count) {
  using functions = cublas_functions<T>;
  using value = typename functions::value;
  const auto alpha = cublas_number<value>(call.alpha);
  const auto beta = cublas_number<value>(call.beta);
  auto** const first = reinterpret_cast<value**>(table);
  check_cublas(
      functions::multiply_batch(handle, cublas_operation(call.first), cublas_operation(call.second),
                                call.m, call.n, call.k, &alpha, first, call.first.leading,
                                first + count, call.second.leading, &beta, first + 2 * count,
                                call.c.leading, static_cast<std::int64_t>(count)),
      "cublasgemmBatched");
}

}  // namespace

std::shared_ptr<operation_launch> begin_gemm_batch(lane_libraries& libraries,
                                                   std::size_t /*count*/) {
  return libraries.get<pointer_tables>().take();
}

void enqueue_gemm_batch(lane_libraries& libraries, const gemm_call& call,
                        const batch_of<gemm>& batch) {
  const auto& blas = libraries.get<cublas_handle>();
  auto& tables = libraries.get<pointer_tables>();
  const current_device_scope current(libraries.runtime().device());
  const auto count = batch.size();
  auto& table = batch.own<pointer_table>();
  const auto addresses = table.pointers();
  for (std::size_t i = 0; i < count; ++i) {
    const auto launch = batch[i];
    void* const a = launch.get<void>(&gemm::a);
    void* const b = launch.get<void>(&gemm::b);
    addresses[i] = call.swapped ? b : a;
    addresses[count + i] = call.swapped ? a : b;
    addresses[2 * count + i] = launch.get<void>(&gemm::c);
  }
  void** const uploaded = tables.upload(table, 3 * count);
  if (is_mixed(call)) {
    return multiply_mixed_batch(blas.get(), call, uploaded, static_cast<std::int64_t>(count));
  }
  switch (call.type) {
    case element_type::f32:
      return run<float>(blas.get(), call, uploaded, count);
    case element_type::f64:
      return run<double>(blas.get(), call, uploaded, count);
    case element_type::c64:
      return run<std::complex<float>>(blas.get(), call, uploaded, count);
    default:
      return run<std::complex<double>>(blas.get(), call, uploaded, count);
  }
}

}  // namespace sluice::cuda
