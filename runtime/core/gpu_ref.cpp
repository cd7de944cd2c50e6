// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/runtime_core.hpp"
#include "runtime/core/share_bytes.hpp"

#include <sluice/runtime/gpu_ref.hpp>

namespace sluice {

block_ref::block_ref(const block_ref& other) noexcept : record_(other.record_) {
  if (record_ != nullptr) record_->references.fetch_add(1, std::memory_order_relaxed);
}

void block_ref::drop() noexcept {
  // No other thread can copy or drop the only reference.
  if (record_->references.load(std::memory_order_acquire) == 1 ||
      record_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    record_->core->handles_gone(*record_);
  }
}

block_id block_ref::id() const noexcept {
  if (record_ == nullptr) return {};
  return {record_->memory.address, record_->generation.load(std::memory_order_relaxed),
          record_->core->serial(), record_->core->id()};
}

device_id block_ref::device() const {
  if (record_ == nullptr) {
    throw error(errc::invalid_argument, "device: the reference is empty");
  }
  return record_->core->id();
}
void* block_ref::address() const noexcept {
  return record_ == nullptr ? nullptr : record_->memory.address;
}
std::size_t block_ref::bytes() const noexcept {
  return record_ == nullptr ? 0 : record_->bytes;
}
allocation_tag block_ref::tag() const noexcept {
  return record_ == nullptr ? allocation_tag{} : record_->memory.tag;
}
bool block_ref::read_only() const noexcept {
  return record_ != nullptr && record_->read_only;
}
bool block_ref::stale() const noexcept {
  return record_ == nullptr || record_->lease.dying();
}

bool detail::share_bytes(const byte_range& a, const byte_range& b) noexcept {
  if (!a.block || !b.block ||
      detail::block_record::of(a.block)->core != detail::block_record::of(b.block)->core)
    return false;
  // The address of freed memory may belong to another block by now.
  if (a.block.stale() || b.block.stale()) return false;
  const auto* const first = static_cast<const std::byte*>(a.address);
  const auto* const second = static_cast<const std::byte*>(b.address);
  return a.bytes != 0 && b.bytes != 0 && first < second + b.bytes && second < first + a.bytes;
}

}  // namespace sluice
