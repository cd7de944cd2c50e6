// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/constant_copies.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace sluice::operations {

/// A constant in host memory on one device, as programs may share it. Nobody writes it, so launches
/// that own this object need not record it. Thread-safe.
class device_constant {
 public:
  /// A copy in a block of the device.
  explicit device_constant(block_ref block) noexcept
      : block_(std::move(block)),
        address_(static_cast<std::byte*>(block_.address())),
        bytes_(block_.bytes()),
        device_bytes_(bytes_) {}
  /// The elements themselves, on a host device. They take no memory of the device.
  explicit device_constant(host_tensor elements) noexcept
      : elements_(std::move(elements)),
        // It is only read.
        address_(const_cast<std::byte*>(static_cast<const std::byte*>(  // NOLINT
            std::as_const(elements_).data().get()))),
        bytes_(elements_.bytes()) {}

  [[nodiscard]] std::byte* address() const noexcept { return address_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The memory of the device that it takes, in bytes.
  [[nodiscard]] std::size_t device_bytes() const noexcept { return device_bytes_; }
  /// The copy of it with this key, which any program has made; nullptr if there is none. The number
  /// of the block in the key does not count, because it differs by program.
  [[nodiscard]] std::shared_ptr<const constant_copy> find_copy(constant_copy_key key) const;
  /// Lets other programs find a copy of it. Returns the one that they find: another thread may have
  /// added one.
  [[nodiscard]] std::shared_ptr<const constant_copy> add_copy(
      constant_copy_key key, std::shared_ptr<const constant_copy> copy) const;

 private:
  block_ref block_{};  // or
  host_tensor elements_{};
  std::byte* address_;
  std::size_t bytes_;
  std::size_t device_bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<constant_copy_key, std::weak_ptr<const constant_copy>> copies_;
};

}  // namespace sluice::operations
