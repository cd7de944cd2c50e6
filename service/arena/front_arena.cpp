// SPDX-License-Identifier: Apache-2.0
#include "service/arena/front_arena.hpp"

#include "service/arena/arena_fault.hpp"

namespace sluice::service {

void front_arena::release_reply(std::uint64_t offset) noexcept {
  try {
    const std::lock_guard lock(release_mutex);
    // A worker has no more replies in memory than the ring has slots.
    if (!releases.push(offset)) throw arena_fault("more replies than allowed");
    release_wanted.notify();
  } catch (const arena_fault&) {
    report_fault();
  }
}

void front_arena::report_fault() noexcept {
  is_faulty.store(true);
  // The thread that receives may sleep.
  wake_signal(arena_layout::front_sleeps(memory->bytes()), front_wake.get()).force();
}

}  // namespace sluice::service
