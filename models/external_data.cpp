// SPDX-License-Identifier: Apache-2.0
#include "models/external_data.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>

namespace sluice::models {

namespace {

namespace fs = std::filesystem;

error refusal(const onnx::TensorProto& tensor, const std::string& text) {
  return {errc::invalid_argument, "tensor '" + tensor.name() + "': " + text};
}

/// Where the elements are.
struct external_location {
  fs::path file{};
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  ///< 0: not stated
};

std::uint64_t number_of(const onnx::TensorProto& tensor, const std::string& text) {
  std::uint64_t number = 0;
  const auto* const end = text.data() + text.size();
  const auto [last, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc() || last != end) throw refusal(tensor, "'" + text + "' is no number");
  return number;
}

/// The file, which links do not lead out of the folder.
fs::path file_within(const onnx::TensorProto& tensor, const fs::path& folder,
                     const std::string& location) {
  if (location.find('\0') != std::string::npos) {
    throw refusal(tensor, "the name of its file has a zero byte");
  }
  const fs::path relative(location);
  std::error_code failure;
  const auto root = fs::canonical(folder.empty() ? fs::path(".") : folder, failure);
  auto file = failure ? fs::path() : fs::canonical(root / relative, failure);
  if (failure || relative.is_absolute() || !fs::is_regular_file(file, failure)) {
    throw refusal(tensor, "there is no file '" + location + "' beside the model");
  }
  const auto [rest, unused] = std::mismatch(root.begin(), root.end(), file.begin(), file.end());
  if (rest != root.end()) throw refusal(tensor, "'" + location + "' is not beside the model");
  return file;
}

external_location locate(const onnx::TensorProto& tensor, const fs::path& folder) {
  external_location found;
  std::string location;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") found.offset = number_of(tensor, entry.value());
    if (entry.key() == "length") found.length = number_of(tensor, entry.value());
  }
  found.file = file_within(tensor, folder, location);
  return found;
}

}  // namespace

void require_external_data(const onnx::TensorProto& tensor, const fs::path& folder,
                           std::size_t bytes) {
  const auto place = locate(tensor, folder);
  if (place.length != 0 && place.length != bytes) {
    throw refusal(tensor, "has " + std::to_string(place.length) + " bytes in its file for " +
                              std::to_string(bytes));
  }
  std::error_code failure;
  const auto size = fs::file_size(place.file, failure);
  if (failure || place.offset > size || bytes > size - place.offset) {
    throw refusal(tensor, "its file is too short for " + std::to_string(bytes) + " bytes");
  }
}

void read_external_data(const onnx::TensorProto& tensor, const fs::path& folder,
                        std::span<std::byte> elements) {
  const auto place = locate(tensor, folder);
  std::ifstream file(place.file, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(place.offset));
  // The interface of streams has characters.
  file.read(reinterpret_cast<char*>(elements.data()),
            static_cast<std::streamsize>(elements.size()));
  if (!file) throw refusal(tensor, "its file is too short");
}

}  // namespace sluice::models
