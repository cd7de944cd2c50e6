// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime/device.hpp>

#include <cstddef>

namespace sluice {
namespace {

// Constructed in advance, for when the host has no memory for a text.
const error& lost_without_words =
    *new error(errc::device_lost, "the device is lost");  // never destroyed

}  // namespace

void device::lose(const error& cause) noexcept {
  if (inherited()) return;  // a thread of the parent may have held the lock
  {
    const std::lock_guard lock(loss_mutex_);
    if (loss_) return;
    loss_ = cause;
    lost_.store(true, std::memory_order_release);  // release: `loss_` has been written
  }
  on_loss();
}

void device::require_usable() const {
  if (lost()) throw loss();
}

error device::loss() const noexcept {
  if (inherited()) {
    try {
      return {errc::device_lost, "device " + to_string(id_) +
                                     " belongs to the parent process; after fork() a child must "
                                     "open its own devices"};
    } catch (...) {
      return lost_without_words;
    }
  }
  const std::lock_guard lock(loss_mutex_);
  try {
    if (!loss_) return {errc::device_lost, "device " + to_string(id_) + " is lost"};
    return {errc::device_lost, "device " + to_string(id_) + " is lost: " + loss_->what(),
            loss_->status(), loss_->where()};
  } catch (...) {
    return lost_without_words;
  }
}

}  // namespace sluice
