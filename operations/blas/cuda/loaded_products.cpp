// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/loaded_products.hpp"

#include "operations/blas/cuda/check_cublas.hpp"
#include "operations/blas/cuda/cublas_functions.hpp"
#include "operations/blas/cuda/mixed_products.hpp"
#include "operations/capture_scope.hpp"
#include "operations/workspace.hpp"

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>

namespace sluice::cuda {

loaded_products::loaded_products(device_runtime& runtime, stream_ref /*stream*/) {
  if (!operations::capture_scope::is_open()) load(runtime);
}

void loaded_products::load(device_runtime& runtime) {
  auto& device = runtime.device();
  const detail::library_call call(device.id());
  const current_device_scope current(device);
  // The lane's stream may hold launches of other libraries, so the kernels are loaded apart, with a
  // workspace of that stream: memory belongs to the stream that it was allocated for.
  const auto apart = runtime.create_stream();
  operations::workspace scratch(runtime, apart, "cublas kernels");
  scratch.require(recommended_workspace(device.info().compute_capability));
  context_.emplace(device);
  context_->bind(apart, scratch);
  load<float>(runtime, apart);
  load<double>(runtime, apart);
  load<std::complex<float>>(runtime, apart);
  load<std::complex<double>>(runtime, apart);
  load_mixed(runtime, apart);
  apart.ref().synchronize();
  check_cublas(cublasSetStream(context_->get(), nullptr), "cublasSetStream");
}

template <class T>
void loaded_products::load(device_runtime& runtime, stream_ref stream) {
  using functions = cublas_functions<T>;
  using value = typename functions::value;
  constexpr std::int64_t order = 64;
  constexpr std::int64_t count = 2;
  constexpr std::int64_t elements = order * order;
  operations::workspace operands(runtime, stream, "cublas kernels");
  operands.require(3 * count * elements * sizeof(value));
  operations::workspace tables(runtime, stream, "cublas kernels");
  tables.require(3 * count * sizeof(value*));
  auto* const a = static_cast<value*>(operands.address());
  auto* const b = a + count * elements;
  auto* const c = b + count * elements;
  const unsigned char nothing = 0;
  runtime.device().fill(a, &nothing, 1, operands.bytes(), stream.native());
  const value beta{};
  const auto alpha = cublas_number<value>(1);
  check_cublas(functions::multiply(context_->get(), CUBLAS_OP_N, CUBLAS_OP_N, order, order, order,
                                   &alpha, a, order, b, order, &beta, c, order),
               "cublasgemm");
  check_cublas(functions::multiply_stack(context_->get(), CUBLAS_OP_N, CUBLAS_OP_N, order, order,
                                         order, &alpha, a, order, elements, b, order, elements,
                                         &beta, c, order, elements, count),
               "cublasgemmStridedBatched");
  // A batch of two, by a table of addresses behind the operands.
  auto** const table = static_cast<value**>(tables.address());
  const std::array<value*, 6> addresses{a, a + elements, b, b + elements, c, c + elements};
  runtime.device().copy(table, addresses.data(), sizeof(addresses), copy_direction::host_to_device,
                        stream.native());
  stream.synchronize();  // before the addresses go
  check_cublas(functions::multiply_batch(context_->get(), CUBLAS_OP_N, CUBLAS_OP_N, order, order,
                                         order, &alpha, table, order, table + 2, order, &beta,
                                         table + 4, order, count),
               "cublasgemmBatched");
}

void loaded_products::load_mixed(device_runtime& runtime, stream_ref stream) {
  constexpr std::int64_t order = 64;
  constexpr std::int64_t elements = order * order;
  operations::workspace operands(runtime, stream, "cublas kernels");
  operands.require(3 * elements * sizeof(float));
  auto* const a = static_cast<float*>(operands.address());
  const unsigned char nothing = 0;
  runtime.device().fill(a, &nothing, 1, operands.bytes(), stream.native());
  operations::gemm_call call{.m = order, .n = order, .k = order};
  call.first.leading = call.second.leading = call.c.leading = order;
  for (const auto type : {element_type::f16, element_type::bf16}) {
    call.type = call.c_type = type;
    multiply_mixed(context_->get(), call, a, a + elements, a + 2 * elements);
  }
}

}  // namespace sluice::cuda
