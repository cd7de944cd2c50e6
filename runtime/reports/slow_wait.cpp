// SPDX-License-Identifier: Apache-2.0
#include "runtime/reports/slow_wait.hpp"

#include "runtime/reports/report.hpp"

#include <atomic>

namespace sluice::detail {
namespace {

constinit std::atomic<std::chrono::milliseconds> patience{std::chrono::milliseconds(3000)};

}  // namespace

slow_wait::slow_wait() noexcept
    : due_time_(std::chrono::steady_clock::now() + patience.load(std::memory_order_relaxed)) {}

void slow_wait::set_patience(std::chrono::milliseconds timeout) noexcept {
  patience.store(timeout, std::memory_order_relaxed);
}

void slow_wait::say(std::string_view text) noexcept {
  report(text);
}

}  // namespace sluice::detail
