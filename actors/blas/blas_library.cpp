// SPDX-License-Identifier: Apache-2.0
#include "actors/blas/blas_library.hpp"

#include "actors/blas/blas_cuda.hpp"
#include "actors/blas/blas_host.hpp"

#include <sluice/runtime/error.hpp>

namespace sluice::actors {

std::unique_ptr<blas_library> make_blas_library(device_runtime& runtime, stream_ref stream) {
  const device_id id = runtime.device().id();
  switch (id.kind) {
    case device_kind::host:
      return host::make_blas_library(stream);
    case device_kind::cuda:
      return cuda::make_blas_library(runtime, stream);
  }
  throw error(errc::unsupported, "there is no BLAS for device " + to_string(id));
}

}  // namespace sluice::actors
