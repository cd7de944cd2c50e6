// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"

#include <cstddef>
#include <filesystem>
#include <span>

namespace sluice::models {

/// Reads the elements of a tensor that are in a file beside the model, as many bytes as `elements`
/// has.
/// @throws error as `require_external_data`
void read_external_data(const onnx::TensorProto& tensor, const std::filesystem::path& folder,
                        std::span<std::byte> elements);
/// Checks a tensor of so many bytes before memory is allocated for it.
/// @throws error `invalid_argument` if the file is not within `folder`, cannot be read, or is too
/// short, or if the tensor states another number of bytes
void require_external_data(const onnx::TensorProto& tensor, const std::filesystem::path& folder,
                           std::size_t bytes);

}  // namespace sluice::models
