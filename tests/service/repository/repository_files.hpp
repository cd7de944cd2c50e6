// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace sluice::test {

/// Files and folders of a model repository, beneath a temporary folder. Paths are relative to it.
class repository_files {
 public:
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_.path(); }

  /// Writes a file in place, with the folders above it.
  void write(std::string_view name, std::string_view text) const {
    const auto file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream stream(file, std::ios::binary | std::ios::trunc);
    stream << text;
    stream.close();
    ASSERT_TRUE(stream.good()) << file;
  }
  /// Writes a file, sets the time of its last write back, and renames it into its place.
  void write_and_rename(std::string_view name, std::string_view text, int seconds = 60) const {
    const std::string draft = std::string(name) + ".draft";
    write(draft, text);
    set_back(draft, seconds);
    std::filesystem::rename(folder_ / draft, folder_ / name);
  }
  /// Sets the time of the last write back.
  void set_back(std::string_view name, int seconds) const {
    const auto file = folder_ / name;
    struct stat status {};
    ASSERT_EQ(::stat(file.c_str(), &status), 0) << file;
    status.st_mtim.tv_sec -= seconds;
    const timespec times[] = {status.st_atim, status.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0) << file;
  }
  void link(std::string_view target, std::string_view name) const {
    const auto link = folder_ / name;
    std::filesystem::create_directories(link.parent_path());
    std::filesystem::create_symlink(target, link);
  }
  /// Replaces a link atomically, as Kubernetes does.
  void switch_link(std::string_view target, std::string_view name) const {
    const std::string draft = std::string(name) + "_tmp";
    link(target, draft);
    std::filesystem::rename(folder_ / draft, folder_ / name);
  }
  void rename(std::string_view from, std::string_view to) const {
    std::filesystem::rename(folder_ / from, folder_ / to);
  }
  void remove(std::string_view name) const { std::filesystem::remove_all(folder_ / name); }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const {
    return folder_ / name;
  }

 private:
  temporary_folder folder_;
};

}  // namespace sluice::test
