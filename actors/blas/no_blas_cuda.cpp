// SPDX-License-Identifier: Apache-2.0
#include "actors/blas/blas_cuda.hpp"

#include <sluice/runtime/error.hpp>

namespace sluice::cuda {

std::unique_ptr<actors::blas_library> make_blas_library(device_runtime&, stream_ref) {
  throw error(errc::unsupported, "blas: this build has no cuBLAS");
}

}  // namespace sluice::cuda
