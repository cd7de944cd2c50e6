// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"

#include <sluice/operations/host_tensor.hpp>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::models {

/// A model as it is read. The raw data of large initializers is not in the message, where it would
/// be a second copy of it, but in tensors of their type and shape.
struct model_contents {
  onnx::ModelProto message{};
  std::vector<host_tensor> raw_data{};  ///< by initializer; empty if the message has it
};

/// Raw data of this size or more, in bytes, is kept out of the message.
inline constexpr std::size_t min_separate_bytes = 4096;

/// Reads a file; nothing if it is not a model.
/// @throws error `invalid_argument` if it cannot be opened
/// @throws std::bad_alloc if there is no memory; never more than the file has is allocated at once
[[nodiscard]] std::optional<model_contents> read_model(const std::filesystem::path& path);
/// Likewise from memory.
[[nodiscard]] std::optional<model_contents> read_model(std::span<const std::byte> bytes);

}  // namespace sluice::models
