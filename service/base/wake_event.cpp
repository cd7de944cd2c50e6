// SPDX-License-Identifier: Apache-2.0
#include "service/base/wake_event.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

namespace sluice::service {
namespace {

file_descriptor make_event() {
  file_descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  return event;
}

}  // namespace

wake_event::wake_event() : event_(make_event()) {}

void wake_event::signal() noexcept {
  if (!is_signaled_.exchange(true, std::memory_order_acq_rel)) {
    (void)::eventfd_write(event_.get(), 1);
  }
}

bool wake_event::take() noexcept {
  return is_signaled_.load(std::memory_order_relaxed) &&
         is_signaled_.exchange(false, std::memory_order_acq_rel);
}

void wake_event::clear() noexcept {
  eventfd_t count = 0;
  (void)::eventfd_read(event_.get(), &count);
}

}  // namespace sluice::service
