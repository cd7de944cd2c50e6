// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/dnn/dnn_library.hpp"

#include <memory>

/// The door to cuDNN. Includes no CUDA header; in a build without cuDNN the function throws
/// `unsupported`.
namespace sluice::cuda {

[[nodiscard]] std::unique_ptr<actors::dnn_library> make_dnn_library(device_runtime& runtime,
                                                                    stream_ref stream);

}  // namespace sluice::cuda
