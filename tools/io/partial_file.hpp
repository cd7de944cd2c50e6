// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace sluice::io {

/// A temporary file ".sluice-<random>.partial" in the folder of the final file. Unless it has been
/// renamed, the destructor removes it, and so does a signal that ends the process (see
/// `remove_partial_files_on_signals`).
class partial_file {
 public:
  partial_file() = default;
  partial_file(const partial_file&) = delete;
  partial_file& operator=(const partial_file&) = delete;
  ~partial_file() { remove(); }

  /// Creates the file in `folder` (empty: the current folder) and opens it for writing. Returns its
  /// descriptor, or -1 with the reason in `errno`. Call it once. @throws std::bad_alloc
  [[nodiscard]] int create(const std::filesystem::path& folder);
  /// Whether the file exists under its temporary name.
  [[nodiscard]] bool exists() const noexcept { return listed_; }
  /// Renames the file to `location`. Returns 0, or the reason as an `errno` value.
  [[nodiscard]] int rename(const std::filesystem::path& location) noexcept;
  void remove() noexcept;

 private:
  friend void remove_all_partial_files() noexcept;
  void list() noexcept;
  void unlist() noexcept;

  std::filesystem::path path_;
  bool listed_ = false;
  partial_file* next_ = nullptr;
};

/// Installs handlers that remove all partial files before a signal ends the process. They cover
/// every signal that has the default action and ends the process, except SIGKILL. The process still
/// ends by the signal.
void remove_partial_files_on_signals() noexcept;

}  // namespace sluice::io
