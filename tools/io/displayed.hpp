#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace sluice::io {

/// `path` as it is named in an error: its own text with control characters replaced by "?", so that
/// the message stays one line.
[[nodiscard]] std::string displayed(const std::filesystem::path& path);

/// An excerpt of bytes that came from a file, for an error: in single quotes, everything but
/// printable ASCII written as \xNN, and cut after `limit` characters of the original with "...".
[[nodiscard]] std::string quoted(std::string_view text, std::size_t limit = 40);

}  // namespace sluice::io
