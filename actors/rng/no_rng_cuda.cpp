// SPDX-License-Identifier: Apache-2.0
#include "actors/rng/rng_libraries.hpp"

#include <sluice/runtime/error.hpp>

namespace sluice::actors {

std::unique_ptr<rng_library> make_cuda_rng_library(stream_ref) {
  throw error(errc::unsupported, "rng: built without CUDA");
}

}  // namespace sluice::actors
