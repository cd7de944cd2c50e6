// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/fft/fft_library.hpp"

#include <memory>

namespace sluice::actors {

/// On KissFFT, in tasks of the host device.
[[nodiscard]] std::unique_ptr<fft_library> make_host_fft_library(stream_ref stream);
/// On cuFFT. A build without CUDA answers `unsupported`.
[[nodiscard]] std::unique_ptr<fft_library> make_cuda_fft_library(device_runtime& runtime,
                                                                 stream_ref stream);

/// @throws error `invalid_argument` as `fft_library::execute`
void require_executable(const fft_description& completed, const void* in, const void* out,
                        double scale);

}  // namespace sluice::actors
