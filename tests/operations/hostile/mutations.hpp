// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/hostile/mutation.hpp"

#include <vector>

namespace sluice::test {

/// The mutations of the operations of each library. The expected answers are written by hand, from
/// the documentation of the operations.
///@{
[[nodiscard]] std::vector<operation_mutations> blas_mutations();
[[nodiscard]] std::vector<operation_mutations> scaled_gemm_mutations();
[[nodiscard]] std::vector<operation_mutations> convolution_mutations();
[[nodiscard]] std::vector<operation_mutations> dnn_mutations();
[[nodiscard]] std::vector<operation_mutations> fft_mutations();
[[nodiscard]] std::vector<operation_mutations> rng_mutations();
[[nodiscard]] std::vector<operation_mutations> elementwise_mutations();
[[nodiscard]] std::vector<operation_mutations> arrangement_mutations();
[[nodiscard]] std::vector<operation_mutations> indexing_mutations();
[[nodiscard]] std::vector<operation_mutations> interpolation_mutations();
[[nodiscard]] std::vector<operation_mutations> movement_mutations();
[[nodiscard]] std::vector<operation_mutations> pooling_mutations();
[[nodiscard]] std::vector<operation_mutations> quantization_mutations();
[[nodiscard]] std::vector<operation_mutations> rearrangement_mutations();
[[nodiscard]] std::vector<operation_mutations> recurrent_mutations();
[[nodiscard]] std::vector<operation_mutations> spectral_mutations();
[[nodiscard]] std::vector<operation_mutations> transfer_mutations();
///@}

/// The mutations of all operations.
[[nodiscard]] inline std::vector<operation_mutations> all_mutations() {
  std::vector<operation_mutations> all;
  for (auto* library :
       {blas_mutations, scaled_gemm_mutations, convolution_mutations, dnn_mutations, fft_mutations,
        rng_mutations, elementwise_mutations, arrangement_mutations, indexing_mutations,
        interpolation_mutations, movement_mutations, pooling_mutations, quantization_mutations,
        rearrangement_mutations, recurrent_mutations, spectral_mutations, transfer_mutations}) {
    for (auto& operation : library()) all.push_back(std::move(operation));
  }
  return all;
}

}  // namespace sluice::test
