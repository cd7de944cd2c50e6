// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace sluice::models {

/// A file that appears under its name only when it is complete. The bytes go to a temporary file in
/// the same folder, and `complete` renames it. Without `complete` the destructor removes the
/// temporary file, and an existing file of that name stays unchanged.
///
/// A symbolic link is followed. A replaced file keeps its permissions; a new file has those that
/// the umask allows. An existing file that is not regular (a pipe, a terminal, `/dev/null`,
/// `/dev/stdout`) is written directly. Not thread-safe.
class replacing_file {
 public:
  /// Creates the temporary file.
  /// @throws error `invalid_argument` with the path if its folder is missing or not writable, the
  /// path is a folder, or it is an existing file without write permission; `library_failure` if the
  /// system cannot create a file
  explicit replacing_file(const std::filesystem::path& target);
  replacing_file(const replacing_file&) = delete;
  replacing_file& operator=(const replacing_file&) = delete;
  ~replacing_file();

  /// The open descriptor that takes the bytes.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Flushes the file to the disk and renames it. Call it last.
  /// @throws error as `fail`; an existing file of that name is then unchanged
  void complete();
  /// Reports a failed write with its `errno`.
  /// @throws error `library_failure` with the path
  [[noreturn]] void fail(int number) const;

 private:
  void create_temporary();

  std::filesystem::path target_;     ///< as the caller states it
  std::filesystem::path location_;   ///< with symbolic links followed
  std::filesystem::path temporary_;  ///< empty if there is none
  int descriptor_ = -1;
};

}  // namespace sluice::models
