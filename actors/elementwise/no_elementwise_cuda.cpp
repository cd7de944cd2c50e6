// SPDX-License-Identifier: Apache-2.0
#include "actors/elementwise/elementwise_libraries.hpp"

#include <sluice/runtime/error.hpp>

namespace sluice::actors {

std::unique_ptr<elementwise_library> make_cuda_elementwise_library(device_runtime&, stream_ref) {
  throw error(errc::unsupported, "elementwise: built without CUDA");
}

}  // namespace sluice::actors
