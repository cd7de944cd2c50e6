// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"

#include <sluice/operations/host_tensor.hpp>

#include <filesystem>
#include <optional>

namespace sluice::models {

/// The elements of a tensor of ONNX. `folder` is that of the model, if it was read from a file:
/// tensors may have their elements in files beside it.
/// @throws error `invalid_argument` if the number of elements is not that of the shape, an extent
/// is negative, or there are more than 8 of them
/// @throws error `unsupported` if sluice has no such type, or the elements are in another file and
/// there is no folder
/// @throws error `out_of_memory`
/// @throws error as `read_external_data`
[[nodiscard]] host_tensor read_tensor(const onnx::TensorProto& tensor,
                                      const std::optional<std::filesystem::path>& folder = {});

}  // namespace sluice::models
