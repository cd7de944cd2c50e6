// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/gpu_ref.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace sluice {

/// A run of device memory that may or may not be the runtime's own. An owned column has the
/// identity of its block, which an import may have given it; an external one is memory that
/// somebody else allocated, which a strict launch recorder rejects and a permissive one skips.
/// Copies share the memory. Copying, dropping and reading different copies at a time is safe; one
/// copy is not to be assigned while another thread uses it.
class column {
 public:
  column() noexcept = default;

  /// The elements of `ref`, tracked like it.
  template <element T>
  // NOLINTNEXTLINE(google-explicit-constructor): every reference is a column.
  column(const gpu_ref<T>& ref)
      : block_(ref.block()),
        address_(ref.data()),
        bytes_(ref.bytes()),
        type_(ref.type()),
        device_(ref ? ref.device() : device_id{}) {}

  /// All of `block` as elements of `type`, tracked like it.
  // NOLINTNEXTLINE(bugprone-exception-escape): only an empty reference has no device.
  column(block_ref block, element_type type) noexcept
      : block_(std::move(block)),
        address_(block_.address()),
        bytes_(block_.bytes()),
        type_(type),
        device_(block_ ? block_.device() : device_id{}) {}

  /// `bytes` bytes at `address` on `device`, not tracked. They must stay alive until every launch
  /// that uses them ended; `kept` is dropped with the last copy of the column. A recorder refuses
  /// to write what is `read_only`.
  [[nodiscard]] static column external(device_id device, void* address, std::size_t bytes,
                                       element_type type, std::shared_ptr<const void> kept = {},
                                       bool read_only = false) {
    column c;
    c.kept_ = std::move(kept);
    c.read_only_ = read_only;
    c.address_ = address;
    c.bytes_ = bytes;
    c.type_ = type;
    c.device_ = device;
    return c;
  }

  /// Whether the column has no identity. True for an empty column.
  [[nodiscard]] bool is_external() const noexcept { return !block_; }
  /// The block of an owned column; the empty reference for an external one.
  [[nodiscard]] const block_ref& block() const noexcept { return block_; }
  /// The device address of the first element; null for an empty column.
  [[nodiscard]] void* address() const noexcept { return address_; }
  /// The size of all elements.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The type of each element.
  [[nodiscard]] element_type type() const noexcept { return type_; }
  /// The device of the memory.
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// Whether the memory may only be read.
  [[nodiscard]] bool read_only() const noexcept { return block_ ? block_.read_only() : read_only_; }

  /// The elements as a reference. @throws error `stream_misuse` for an external column;
  /// `invalid_argument` when they are not of type `T`, or not aligned to its size
  template <element T>
  [[nodiscard]] gpu_ref<T> as() const {
    if (is_external()) {
      throw error(errc::stream_misuse, "column::as: external memory has no runtime identity");
    }
    if (type_ != element_type_v<T>) {
      throw error(errc::invalid_argument, "column::as: the elements are " +
                                              std::string(to_string(type_)) + ", not " +
                                              std::string(to_string(element_type_v<T>)));
    }
    const auto offset =
        static_cast<const std::byte*>(address_) - static_cast<const std::byte*>(block_.address());
    return gpu_ref<T>(block_, static_cast<std::size_t>(offset), bytes_ / sizeof(T));
  }

 private:
  block_ref block_;
  std::shared_ptr<const void> kept_;  // of external memory
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
  element_type type_ = element_type::u8;
  device_id device_{};
  bool read_only_ = false;  // of external memory
};

}  // namespace sluice
