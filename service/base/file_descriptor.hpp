// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>
#include <utility>

namespace sluice::service {

/// Owns a file descriptor and closes it.
class file_descriptor {
 public:
  file_descriptor() noexcept = default;
  /// Takes `descriptor`; a negative number is none.
  explicit file_descriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  file_descriptor(file_descriptor&& other) noexcept : descriptor_(other.release()) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept {
    file_descriptor taken(std::move(other));
    std::swap(descriptor_, taken.descriptor_);
    return *this;
  }
  ~file_descriptor() {
    if (descriptor_ >= 0) (void)::close(descriptor_);
  }

  /// The descriptor, which stays owned; -1 if there is none.
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  /// The descriptor, which the caller now owns; -1 if there is none.
  [[nodiscard]] int release() noexcept { return std::exchange(descriptor_, -1); }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

}  // namespace sluice::service
