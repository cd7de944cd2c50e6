// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/file_descriptor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::service {

/// Memory without a name that two processes map, and its descriptor.
///
/// Seals fix its size, so that no process can make accesses of the other one fail with SIGBUS.
class shared_memory {
 public:
  /// Creates and maps memory of zeros.
  /// @throws std::system_error if the kernel refuses
  [[nodiscard]] static shared_memory create(std::uint64_t bytes);

  /// Maps all of the memory behind a descriptor.
  /// @throws std::system_error if the kernel refuses, or with EINVAL if the size is not sealed
  explicit shared_memory(file_descriptor descriptor);
  shared_memory(shared_memory&& other) noexcept;
  shared_memory& operator=(shared_memory&&) = delete;
  ~shared_memory();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }

 private:
  file_descriptor descriptor_;
  std::span<std::byte> bytes_;
};

}  // namespace sluice::service
