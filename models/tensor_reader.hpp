// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"

#include <sluice/operations/host_tensor.hpp>

namespace sluice::models {

/// The elements of a tensor of ONNX.
/// @throws error `invalid_argument` if the number of elements is not that of the shape, an extent
/// is negative, or there are more than 8 of them
/// @throws error `unsupported` if sluice has no such type, or the elements are in another file
[[nodiscard]] host_tensor read_tensor(const onnx::TensorProto& tensor);

}  // namespace sluice::models
