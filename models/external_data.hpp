// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"

#include <cstddef>
#include <filesystem>
#include <span>

namespace sluice::models {

/// Reads the elements of a tensor that are in a file beside the model, as many bytes as `elements`
/// has.
/// @throws error `invalid_argument` if the file is not within `folder`, cannot be read, or is too
/// short, or if the tensor states another number of bytes
void read_external_data(const onnx::TensorProto& tensor, const std::filesystem::path& folder,
                        std::span<std::byte> elements);
/// The number of bytes of the file from the first element on, so that a tensor is not larger.
/// @throws error as `read_external_data`
[[nodiscard]] std::size_t external_bytes(const onnx::TensorProto& tensor,
                                         const std::filesystem::path& folder);

}  // namespace sluice::models
