// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/file_descriptor.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sluice::service {

/// Why a file or a folder of a repository cannot be used: one printable line.
class repository_error : public std::runtime_error {
 public:
  /// @param number an errno, or 0
  explicit repository_error(const std::string& message, int number = 0)
      : std::runtime_error(message), number_(number) {}
  /// The errno, or 0 if no system call has failed.
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

/// What tells one content of a file from another. A write changes it, unless the file system gives
/// the file the same time again and the size stays.
struct file_identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;        ///< in bytes
  std::int64_t modified_ns = 0;  ///< the time of the last write, since 1970

  friend bool operator==(const file_identity&, const file_identity&) = default;
};

/// A regular file, as it was when it was looked at.
struct file_status {
  file_identity identity{};
  /// Whether the last write precedes the last change of the inode by 2 s or more. A rename, a link
  /// and a change of times or permissions change the inode; each write changes it too. The file
  /// was therefore complete before it was renamed, or its times were set after the last write. No
  /// clock but that of the file system matters.
  bool precedes_its_inode = false;

  friend bool operator==(const file_status&, const file_status&) = default;
};

/// The status of an open file.
/// @throws repository_error if it is no regular file
[[nodiscard]] file_status status_of(const file_descriptor& file);

/// A file that its descriptor keeps open.
struct open_file {
  file_descriptor descriptor{};
  file_status status{};
};

/// Opens a regular file for reading, wherever it is.
/// @throws repository_error if it cannot be read or is no regular file
[[nodiscard]] open_file open_regular_file(const std::filesystem::path& path);

/// A folder, and what is beneath it. Symbolic links are followed as long as they stay beneath it;
/// absolute links do not. It is the folder that was opened, also if its path names another one by
/// now. All functions are thread-safe.
class repository_folder {
 public:
  /// @throws repository_error if it is no folder that can be read
  explicit repository_folder(const std::filesystem::path& path);

  /// Opens a regular file for reading, without waiting for a FIFO or a device.
  /// @throws repository_error if it cannot be read, is no regular file, or is not beneath the
  /// folder
  [[nodiscard]] open_file open(const std::string& path) const;
  /// Opens a folder beneath this one.
  /// @throws repository_error if there is none
  [[nodiscard]] repository_folder folder(const std::string& path) const;
  /// The names in this folder, in any order, without those that begin with a dot.
  /// @throws repository_error if it cannot be read or has more than `most` names
  [[nodiscard]] std::vector<std::string> names(std::size_t most) const;

 private:
  explicit repository_folder(file_descriptor folder) : folder_(std::move(folder)) {}

  file_descriptor folder_{};
};

}  // namespace sluice::service
