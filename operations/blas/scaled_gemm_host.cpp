// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/epilogue_host.hpp"
#include "operations/blas/gemm_blocks.hpp"
#include "operations/blas/gemm_functions.hpp"
#include "operations/blas/scaled_gemm_functions.hpp"

namespace sluice::host {

void check_scaled_gemm(const operations::scaled_gemm_call& call) {
  check_products("scaled_gemm", call.products);
}

void compute_scaled_gemm(const operations::scaled_gemm_call& call,
                         const launch_of<scaled_gemm>& launch) {
  const auto& p = call.products;
  if (p.m == 0 || p.n == 0 || p.count == 0) return;
  const operations::epilogue_addresses addresses{launch.get<void>(&scaled_gemm::c),
                                                 launch.get<const void>(&scaled_gemm::bias),
                                                 launch.get<const void>(&scaled_gemm::residual)};
  const auto& epilogue = call.epilogue;
  if (!p.multiplies) {
    if (!epilogue.is_empty()) compute_epilogue(epilogue, addresses);
    return;
  }
  const auto scale = [&](operand scaled_gemm::*member) {
    const auto* const number = launch.get<const float>(member);
    return number == nullptr ? 1.0F : *number;
  };
  const auto* const a = launch.get<const void>(&scaled_gemm::a);
  const auto* const b = launch.get<const void>(&scaled_gemm::b);
  turn_off_openblas_threads();
  compute_converted(
      {.call = p,
       .first = p.swapped ? b : a,
       .second = p.swapped ? a : b,
       .c = addresses.c,
       .first_type = call.first_type,
       .second_type = call.second_type,
       .alpha = static_cast<float>(p.alpha.real()) * scale(&scaled_gemm::a_scale) *
                scale(&scaled_gemm::b_scale)},
      epilogue.is_empty() ? product_epilogue{} : product_epilogue{&epilogue, addresses});
}

}  // namespace sluice::host
