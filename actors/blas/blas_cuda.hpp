// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/blas/blas_library.hpp"

#include <memory>

/// The door to cuBLAS. Includes no CUDA header; without the toolkit the function throws
/// `unsupported`.
namespace sluice::cuda {

[[nodiscard]] std::unique_ptr<actors::blas_library> make_blas_library(device_runtime& runtime,
                                                                      stream_ref stream);

}  // namespace sluice::cuda
