// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/file_descriptor.hpp"
#include "service/protocol/region_description.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice::service {

/// Whether `key` is "/" and the name of a file, without another "/" and control characters.
[[nodiscard]] bool is_region_key(std::string_view key) noexcept;

/// A region of system shared memory, which its client may write to and truncate at any time.
///
/// It is read and written by system calls and never mapped, so that a file that its client
/// truncates causes an error and no signal. The functions may be called by several threads at the
/// same time. All throw request_error `invalid_argument`, which names the region, if the bytes are
/// not in the region, or if the file has become too short.
class client_region {
 public:
  /// Opens the file of the key in /dev/shm.
  /// @param owner  the user id that must own the file
  /// @throws request_error `invalid_argument` if the key is no key, if there is no such regular
  /// file, or if the region is empty or not in the file; `permission_denied` if another user owns
  /// the file, or if the service may not read it; `resource_exhausted` if there are no descriptors
  client_region(region_description description, std::uint32_t owner);

  [[nodiscard]] const region_description& description() const noexcept { return description_; }
  [[nodiscard]] std::uint32_t owner() const noexcept { return owner_; }
  /// Whether the service may write to the file.
  [[nodiscard]] bool is_writable() const noexcept { return is_writable_; }

  /// Checks that these bytes are in the region.
  void check_range(std::uint64_t offset, std::uint64_t bytes) const;
  /// Checks that the file has these bytes of the region now.
  void check_file(std::uint64_t offset, std::uint64_t bytes) const;
  /// Reads bytes of the region to `target`, whose contents are undefined after an error.
  void read(std::uint64_t offset, std::span<std::byte> target) const;
  /// Writes bytes to the region, or some of them before an error.
  /// @throws request_error also `resource_exhausted` if there is no memory for the file
  void write(std::uint64_t offset, std::span<const std::byte> source) const;

 private:
  [[noreturn]] void refuse_truncated() const;

  region_description description_;
  std::uint32_t owner_;
  bool is_writable_ = true;
  file_descriptor file_{};
};

}  // namespace sluice::service
