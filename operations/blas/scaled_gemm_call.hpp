// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/gemm_epilogue_call.hpp"

#include <sluice/operations/scaled_gemm.hpp>

#include <cstdint>

namespace sluice::operations {

/// What a plan of a `scaled_gemm` depends on. Without products, everything is 0.
struct scaled_key {
  fused_key product{};  ///< its type is that of the first factors
  std::int32_t second_type = 0;
  std::int32_t scales_first = 0;
  std::int32_t scales_second = 0;
  std::int32_t suits_tensor_cores = 0;  ///< the layouts are those that cuBLASLt takes of 8 bits
};

/// Products of 8-bit floating-point numbers.
struct scaled_gemm_call {
  gemm_call products{};  ///< its type is the one of 16 bits to which A and B can be converted
  element_type first_type = element_type::e4m3;
  element_type second_type = element_type::e4m3;
  epilogue_call epilogue{};
  scaled_key key{};

  [[nodiscard]] launch_facts facts() const noexcept {
    auto result = products.facts();
    ++result.commands;
    return result;
  }
};

/// Infers `op`; see `scaled_gemm`.
[[nodiscard]] scaled_gemm_call infer(const scaled_gemm& op, inference& inference);

}  // namespace sluice::operations
