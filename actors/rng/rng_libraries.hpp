// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/rng/rng_library.hpp"

#include <memory>

namespace sluice::actors {

/// On Random123, in tasks of the host device.
[[nodiscard]] std::unique_ptr<rng_library> make_host_rng_library(stream_ref stream);
/// On our own kernels. A build without CUDA answers `unsupported`.
[[nodiscard]] std::unique_ptr<rng_library> make_cuda_rng_library(stream_ref stream);

}  // namespace sluice::actors
