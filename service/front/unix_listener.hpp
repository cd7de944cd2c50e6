// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/file_descriptor.hpp"

#include <cstdint>
#include <string>

namespace sluice::service {

/// A Unix socket that listens, and its file. Only this user and root can connect to it.
class unix_listener {
 public:
  /// Replaces the file of a socket that nobody listens to.
  /// @throws std::system_error if the path is too long, if something else has it, such as a server
  /// that runs, or if the kernel refuses
  explicit unix_listener(std::string path);
  unix_listener(const unix_listener&) = delete;
  unix_listener& operator=(const unix_listener&) = delete;
  /// Removes the file, unless another one has its place by now.
  ~unix_listener();

  /// The socket, which the caller now owns.
  [[nodiscard]] int release() noexcept { return socket_.release(); }

 private:
  const std::string path_;
  file_descriptor socket_{};
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
};

}  // namespace sluice::service
