// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/partial_file.hpp"

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>

namespace sluice::io {

/// A file that appears under its name only when it is complete. The bytes go to a temporary file in
/// the same folder, and `commit` renames it. Without `commit` the destructor removes the temporary
/// file, and an existing file of that name stays unchanged.
///
/// A symbolic link is followed. A replaced file keeps its permissions; a new file has those that
/// the umask allows. An existing file that is not regular (a pipe, a terminal, `/dev/null`,
/// `/dev/stdout`) is written directly. Not thread-safe.
class output_file {
 public:
  /// Creates the temporary file. @throws error as `require_writable_folder`; `library_failure` if
  /// the system cannot create a file
  explicit output_file(const std::filesystem::path& target);
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file();

  /// Appends `bytes`. @throws error `library_failure`, naming the file, if the write fails: a full
  /// disk, a limit on the size of files, a failing device
  void write(std::span<const std::byte> bytes);

  /// Flushes the file to the disk and renames it. Call it last. @throws error `library_failure`,
  /// naming the file; an existing file of that name is then unchanged
  void commit();

 private:
  void close() noexcept;

  std::filesystem::path target_;    ///< the path that the caller gave
  std::filesystem::path location_;  ///< with symbolic links followed
  partial_file temporary_;          ///< empty if the target is written directly
  int descriptor_ = -1;
};

/// Checks that an `output_file` for `target` can be created. Leaves no file behind. @throws error
/// `invalid_argument`, in one line that names the path: its folder is missing or not writable, the
/// path is a folder, or it is an existing file without write permission
void require_writable_folder(const std::filesystem::path& target);

/// The identity of a regular file, independent of its name: device and inode. For a file that does
/// not exist yet: device and inode of its folder, and its name in the folder.
struct file_identity {
  dev_t device = 0;
  ino_t inode = 0;
  std::filesystem::path name{};  ///< empty when the file exists
  bool operator==(const file_identity&) const = default;
};

/// The identity of the file that `path` leads to, with symbolic links followed. Empty if the file
/// is not regular (a pipe, a terminal, a folder), or if the identity cannot be determined.
[[nodiscard]] std::optional<file_identity> identity_of(const std::filesystem::path& path);

}  // namespace sluice::io
