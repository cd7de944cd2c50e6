// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace sluice::io {

/// `path` as an error names it. Each control character becomes "?", so that the message stays one
/// line.
[[nodiscard]] std::string displayed(const std::filesystem::path& path);

/// Bytes from a file as an error quotes them: in single quotes, with every byte that is not
/// printable ASCII as \xNN. After `limit` bytes follows "...".
[[nodiscard]] std::string quoted(std::string_view text, std::size_t limit = 40);

}  // namespace sluice::io
