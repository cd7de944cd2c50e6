// SPDX-License-Identifier: Apache-2.0
#include "service/arena/wake_signal.hpp"

#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

namespace sluice::service {

file_descriptor make_wake_descriptor() {
  file_descriptor descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (descriptor.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  return descriptor;
}

void wake_signal::notify() const noexcept {
  const std::atomic_ref flag(*flag_);
  if (flag.load(std::memory_order_seq_cst) == 0) return;
  if (flag.exchange(0, std::memory_order_seq_cst) != 0) force();
}

void wake_signal::force() const noexcept {
  // The only error is EAGAIN: the eventfd is readable already.
  (void)::eventfd_write(descriptor_, 1);
}

void wake_signal::arm() const noexcept {
  std::atomic_ref(*flag_).store(1, std::memory_order_seq_cst);
}

void wake_signal::disarm() const noexcept {
  std::atomic_ref(*flag_).store(0, std::memory_order_relaxed);
}

void wake_signal::clear() const noexcept {
  eventfd_t count = 0;
  (void)::eventfd_read(descriptor_, &count);
}

}  // namespace sluice::service
