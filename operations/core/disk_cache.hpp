// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::operations {

/// What is slow to make, in files of one folder that processes share: compiled kernels, and choices
/// of algorithms.
///
/// A file is written under another name and then renamed, so nobody reads half of it. It contains
/// what its bytes were made from and a checksum. A file that is damaged or of something else is as
/// good as none, and is replaced. Thread-safe: there is no state but the files.
class disk_cache {
 public:
  /// The largest number of files; none is added beyond it.
  static constexpr std::size_t max_files = 4096;

  /// No folder: nothing is kept.
  disk_cache() = default;
  explicit disk_cache(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// The folder `kind` in that of the user: `SLUICE_CACHE`, where an empty text stands for none, or
  /// else `sluice` in `XDG_CACHE_HOME`, or else in `~/.cache`.
  [[nodiscard]] static disk_cache of_user(std::string_view kind);

  /// The bytes that were made from `origin`, a text that says all that they depend on.
  [[nodiscard]] std::optional<std::vector<char>> find(std::string_view origin) const noexcept;
  /// Keeps bytes. If the folder cannot be written, nothing happens.
  void keep(std::string_view origin, const std::vector<char>& bytes) const noexcept;
  /// The file for `origin`.
  [[nodiscard]] std::filesystem::path file_of(std::string_view origin) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace sluice::operations
