// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::service {

/// Who may read a file besides its owner and group.
enum class file_readers : std::uint8_t { everybody, nobody };

/// The largest size of a protected file in bytes.
inline constexpr std::size_t max_protected_bytes = std::size_t{1} << 20;

/// Reads a file on which the security of the service rests, such as a key. Only its owner may write
/// to it, who is this user or root.
/// @throws std::runtime_error with the path if it cannot be read, is no regular file, has more than
/// `max_protected_bytes`, or if others may write or read it
[[nodiscard]] std::string read_protected_file(const std::string& path, file_readers readers);

}  // namespace sluice::service
