#pragma once

#include <sluice/runtime/gpu_ref.hpp>

#include <cstddef>

namespace sluice {

/// A run of device memory that may or may not be the runtime's own. An owned column has the
/// identity of its block; an external one is memory that somebody else allocated and keeps alive,
/// which a strict launch recorder rejects and a permissive one skips.
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
        device_(ref.device()) {}

  /// `bytes` bytes at `address` on `device`, not tracked. They must stay alive until every launch
  /// that uses them ended.
  [[nodiscard]] static column external(device_id device, void* address, std::size_t bytes,
                                       element_type type) {
    column c;
    c.address_ = address;
    c.bytes_ = bytes;
    c.type_ = type;
    c.device_ = device;
    return c;
  }

  [[nodiscard]] bool is_external() const noexcept { return !block_; }
  [[nodiscard]] const block_ref& block() const noexcept { return block_; }
  [[nodiscard]] void* address() const noexcept { return address_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] element_type type() const noexcept { return type_; }
  [[nodiscard]] device_id device() const noexcept { return device_; }

 private:
  block_ref block_;
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
  element_type type_ = element_type::u8;
  device_id device_{};
};

}  // namespace sluice
