// SPDX-License-Identifier: Apache-2.0
#include "actors/fft/fft_libraries.hpp"

#include <sluice/runtime/error.hpp>

namespace sluice::actors {

std::unique_ptr<fft_library> make_cuda_fft_library(device_runtime&, stream_ref) {
  throw error(errc::unsupported, "fft: built without CUDA");
}

}  // namespace sluice::actors
