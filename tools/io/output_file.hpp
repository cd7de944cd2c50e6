#pragma once

#include "tools/io/partial_file.hpp"

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>

namespace sluice::io {

/// A file that appears under its name only when it is complete: the bytes go into a temporary file
/// beside it, which `commit` puts in its place. Without `commit` the destructor removes the
/// temporary and whatever stood under the name before is untouched.
///
/// A symbolic link is followed; a replaced file keeps its permissions, a new one gets those that
/// the umask leaves. What exists and is no regular file (a pipe, a terminal, `/dev/null`,
/// `/dev/stdout`) is written directly. Not thread-safe.
class output_file {
 public:
  /// Opens the temporary file. Throws `invalid_argument` for all that `require_writable_folder`
  /// refuses and `library_failure` when the system cannot make a file.
  explicit output_file(const std::filesystem::path& target);
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file();

  /// Appends `bytes`. Throws `library_failure`, naming the file, when they cannot be written: a
  /// full disk, a limit on the size of files, a failing device.
  void write(std::span<const std::byte> bytes);

  /// Brings everything to the disk and puts the file in its place; nothing may be written after it.
  /// Throws `library_failure`, naming the file, when that fails; the earlier file is then still
  /// there.
  void commit();

 private:
  void close() noexcept;

  std::filesystem::path target_;    ///< as the caller named it
  std::filesystem::path location_;  ///< with symbolic links followed
  partial_file temporary_;          ///< does not exist when the target is written directly
  int descriptor_ = -1;
};

/// Checks, before anything is computed, that `output_file` can be opened for `target`. Throws
/// `invalid_argument`, in one line that names the path, when its folder is missing or not writable,
/// when it is a folder itself, or when it is an existing file without permission to write. Writes
/// nothing that stays.
void require_writable_folder(const std::filesystem::path& target);

/// Identifies a regular file by whatever name: by its device and inode, or, while it does not
/// exist, by those of the folder and its name there.
struct file_identity {
  dev_t device = 0;
  ino_t inode = 0;
  std::filesystem::path name{};  ///< empty when the file exists
  bool operator==(const file_identity&) const = default;
};

/// The identity of the file that `path` leads to, symbolic links followed. Nothing for what is no
/// regular file (a pipe, a terminal, a folder) and where it cannot be determined.
[[nodiscard]] std::optional<file_identity> identity_of(const std::filesystem::path& path);

}  // namespace sluice::io
