// SPDX-License-Identifier: Apache-2.0

#include <sluice/actors/blas.hpp>
#include <sluice/actors/spawn_operations.hpp>

namespace sluice {

blas_actor spawn_blas(caf::actor_system& system, std::shared_ptr<device_service> service,
                      std::shared_ptr<kernel_trace> trace) {
  return spawn_operations<gemm, scaled_gemm, sgemm, dgemm>(
      system, "sluice.blas", std::move(service), std::move(trace),
      {&descriptor_of(operation_type<gemm>{}), &descriptor_of(gemm{.activation = activation::relu}),
       &descriptor_of(operation_type<scaled_gemm>{})});
}

}  // namespace sluice
