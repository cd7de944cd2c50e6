// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice::host {

/// Divides the workspace into ranges.
class workspace_layout {
 public:
  /// The position of `bytes` bytes, aligned for every instruction set.
  std::size_t take(std::size_t bytes) noexcept {
    const std::size_t position = bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return position;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace sluice::host
