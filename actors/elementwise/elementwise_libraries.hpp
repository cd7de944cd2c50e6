// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/elementwise/elementwise_library.hpp"

#include <memory>

namespace sluice::actors {

/// Plain loops, in tasks of the host device.
[[nodiscard]] std::unique_ptr<elementwise_library> make_host_elementwise_library(stream_ref stream);
/// Our kernels. A build without CUDA answers `unsupported`.
[[nodiscard]] std::unique_ptr<elementwise_library> make_cuda_elementwise_library(
    device_runtime& runtime, stream_ref stream);

/// @throws error `invalid_argument` unless `type` is f32 or f64
void require_real(element_type type);
/// @throws error `invalid_argument` unless amin > 0 and top_db ≥ 0, amin also in `type`
void require_valid(element_type type, const decibel_options& options);

}  // namespace sluice::actors
