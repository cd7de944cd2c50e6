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
  std::atomic<std::uint32_t> serving{0};

  void enter() noexcept {
    const auto mine = next.fetch_add(1, std::memory_order_relaxed);
    for (auto now = serving.load(std::memory_order_acquire); now != mine;
         now = serving.load(std::memory_order_acquire)) {
      serving.wait(now, std::memory_order_relaxed);
    }
  }
  void leave() noexcept {
    serving.fetch_add(1, std::memory_order_release);
    serving.notify_all();
  }
};

constinit turnstile of_the_process;

}  // namespace

void open_turnstile_in_child() noexcept {
  of_the_process.serving.store(of_the_process.next.load(std::memory_order_relaxed),
                               std::memory_order_relaxed);
}

turnstile_passage::turnstile_passage(lease_holder& here) : here_(here) {
  if (here.holds_any()) refuse_to_wait();
  of_the_process.enter();
  here.in_turnstile_ = true;
}

turnstile_passage::~turnstile_passage() {
  here_.in_turnstile_ = false;
  of_the_process.leave();
}

void refuse_to_wait() {
  throw error(errc::stream_misuse,
              "this thread holds leases of another launch between preflight and commit, so it must "
              "not wait for more; commit or cancel that launch first");
}

}  // namespace sluice::detail
