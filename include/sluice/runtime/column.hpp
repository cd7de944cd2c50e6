// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/gpu_ref.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace sluice {

/// A contiguous range of device memory with an element type: tracked or external.
///
///     column x = ref;                                       // tracked like the reference
///     column y = column::external(id, address, bytes, element_type::f32);
///     recorder.read(x).read(y);                             // a strict recorder rejects `y`
///
/// A tracked column has the identity of a block. An external column is memory that the runtime does
/// not track. A strict launch recorder rejects it, and a permissive one skips it.
///
/// Copies share the memory. Different copies may be used, copied and destroyed on different
/// threads. A copy must not be assigned to while another thread uses it.
class column {
 public:
  column() noexcept = default;

  /// The elements of `ref`, with the identity of its block.
  template <element T>
  // NOLINTNEXTLINE(google-explicit-constructor): every reference is a column.
  column(const gpu_ref<T>& ref)
      : block_(ref.block()),
        address_(ref.data()),
        bytes_(ref.bytes()),
        type_(ref.type()),
        device_(ref ? ref.device() : device_id{}) {}

  /// An external column: `bytes` bytes at `address` on `device`, which the runtime does not track.
  ///
  /// The memory must stay alive until every launch that uses it has completed. The last copy of the
  /// column destroys its share of `owner`. If `read_only` is true, every recorder rejects a write.
  [[nodiscard]] static column external(device_id device, void* address, std::size_t bytes,
                                       element_type type, std::shared_ptr<const void> owner = {},
                                       bool read_only = false) {
    column c;
    c.owner_ = std::move(owner);
    c.read_only_ = read_only;
    c.address_ = address;
    c.bytes_ = bytes;
    c.type_ = type;
    c.device_ = device;
    return c;
  }

  /// Whether the column has no block. True for an empty column.
  [[nodiscard]] bool is_external() const noexcept { return !block_; }
  /// The block of a tracked column; the empty reference for an external one.
  [[nodiscard]] const block_ref& block() const noexcept { return block_; }
  /// The device address of the first element; null for an empty column.
  [[nodiscard]] void* address() const noexcept { return address_; }
  /// The size of all elements, in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The type of each element.
  [[nodiscard]] element_type type() const noexcept { return type_; }
  /// The device of the memory.
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// Whether the memory must not be written.
  [[nodiscard]] bool read_only() const noexcept { return block_ ? block_.read_only() : read_only_; }

 private:
  block_ref block_;
  std::shared_ptr<const void> owner_;  // of an external column
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
  element_type type_ = element_type::u8;
  device_id device_{};
  bool read_only_ = false;  // of an external column
};

}  // namespace sluice
