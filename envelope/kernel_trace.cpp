// SPDX-License-Identifier: Apache-2.0
#include "runtime/seam.hpp"

#include <sluice/envelope/kernel_trace.hpp>

#include <algorithm>
#include <atomic>

namespace sluice {
namespace {
std::atomic<std::uint64_t> dropped{0};
}

std::uint64_t dropped_trace_exceptions() noexcept {
  return dropped.load(std::memory_order_relaxed);
}
void detail::drop_trace_exception() noexcept {
  if (dropped.fetch_add(1, std::memory_order_relaxed) == 0) {
    report("a trace hook threw an exception; further ones are only counted",
           current_error().what());
  }
}

// A separate `call_trace` for each trace keeps an exception of one from skipping the others.
void fan_out_trace::before_enqueue(const kernel_info& info) {
  for (auto& t : traces_)
    detail::call_trace(t.get(), [&](kernel_trace& trace) { trace.before_enqueue(info); });
}
void fan_out_trace::after_enqueue(const kernel_info& info, const error* failure) {
  for (auto& t : traces_)
    detail::call_trace(t.get(), [&](kernel_trace& trace) { trace.after_enqueue(info, failure); });
}
void fan_out_trace::before_complete(const kernel_info& info) {
  for (auto& t : traces_)
    detail::call_trace(t.get(), [&](kernel_trace& trace) { trace.before_complete(info); });
}
void fan_out_trace::after_complete(const kernel_info& info, const kernel_outcome& outcome) {
  for (auto& t : traces_)
    detail::call_trace(t.get(), [&](kernel_trace& trace) { trace.after_complete(info, outcome); });
}
bool fan_out_trace::wants_timestamps() const noexcept {
  return std::ranges::any_of(traces_,
                             [](const auto& t) { return detail::wants_timestamps(t.get()); });
}
void fan_out_trace::after_timestamps(const kernel_info& info, const kernel_times& times) {
  for (auto& t : traces_) {
    if (detail::wants_timestamps(t.get()))
      detail::call_trace(t.get(),
                         [&](kernel_trace& trace) { trace.after_timestamps(info, times); });
  }
}

}  // namespace sluice
