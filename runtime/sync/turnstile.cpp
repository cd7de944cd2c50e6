// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/turnstile.hpp"

#include <sluice/runtime/error.hpp>

#include <atomic>
#include <cstdint>

namespace sluice::detail {
namespace {

/// A fair lock: threads enter in the order of their numbers.
struct turnstile {
  alignas(64) std::atomic<std::uint32_t> next{0};
  std::atomic<std::uint32_t> current{0};

  void enter() noexcept {
    const auto ticket = next.fetch_add(1, std::memory_order_relaxed);
    for (auto served = current.load(std::memory_order_acquire); served != ticket;
         served = current.load(std::memory_order_acquire)) {
      current.wait(served, std::memory_order_relaxed);
    }
  }
  void leave() noexcept {
    current.fetch_add(1, std::memory_order_release);
    current.notify_all();
  }
};

constinit turnstile process_turnstile;

}  // namespace

void open_turnstile_in_child() noexcept {
  process_turnstile.current.store(process_turnstile.next.load(std::memory_order_relaxed),
                                  std::memory_order_relaxed);
}

turnstile_passage::turnstile_passage(lease_holder& holder) : holder_(holder) {
  if (holder.holds_any()) refuse_to_wait();
  process_turnstile.enter();
  holder.in_turnstile_ = true;
}

turnstile_passage::~turnstile_passage() {
  holder_.in_turnstile_ = false;
  process_turnstile.leave();
}

void refuse_to_wait() {
  throw error(errc::stream_misuse,
              "this thread holds leases of another launch between preflight and commit, so it must "
              "not wait for more; commit or cancel that launch first");
}

}  // namespace sluice::detail
