// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/library_call.hpp"

#include "runtime/devices/open_devices.hpp"

#include <atomic>
#include <bit>
#include <cstdlib>
#include <new>

namespace sluice::detail {
namespace {

/// The calls of one thread. Never destroyed; a later thread takes over the record of one that has
/// ended.
struct alignas(64) thread_calls {
  std::atomic<unsigned> depth{0};
  std::atomic<bool> taken{true};
  thread_calls* next = nullptr;
  unsigned gpu_calls = 0;  // only the thread uses it
};

constinit std::atomic<thread_calls*> records{nullptr};

/// Returns nullptr if the host has no memory. The exit of the process then does not wait.
thread_calls* take_record() noexcept {
  for (auto* r = records.load(std::memory_order_acquire); r != nullptr; r = r->next) {
    if (!r->taken.exchange(true, std::memory_order_acquire)) return r;
  }
  auto* const record = new (std::nothrow) thread_calls;
  if (record == nullptr) return nullptr;
  record->next = records.load(std::memory_order_relaxed);
  while (!records.compare_exchange_weak(record->next, record, std::memory_order_acq_rel,
                                        std::memory_order_relaxed)) {
  }
  return record;
}

struct record_of_thread {
  thread_calls* record = take_record();
  ~record_of_thread() {
    if (record != nullptr) record->taken.store(false, std::memory_order_release);
    record = nullptr;  // for later destructors of the thread
  }
};

thread_calls* mine() noexcept {
  thread_local record_of_thread holder;
  return holder.record;
}

}  // namespace

library_call::library_call(device_id device) noexcept : of_gpu_(device.kind == device_kind::cuda) {
  // Both sides use read-modify-writes: either the exit sees the call, or the call sees the loss.
  if (auto* const calls = mine()) calls->depth.fetch_add(1, std::memory_order_acq_rel);
}

library_call::~library_call() {
  auto* const calls = mine();
  if (calls == nullptr) return;
  if (of_gpu_ && std::has_single_bit(++calls->gpu_calls)) {
    (void)std::atexit([] { open_devices::instance().end(); });
  }
  calls->depth.fetch_sub(1, std::memory_order_release);
}

bool library_call::running_elsewhere() noexcept {
  const auto* const this_thread = mine();
  auto* r = records.load(std::memory_order_relaxed);
  while (
      !records.compare_exchange_weak(r, r, std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  for (; r != nullptr; r = r->next) {
    if (r != this_thread && r->depth.fetch_add(0, std::memory_order_acq_rel) != 0) return true;
  }
  return false;
}

void library_call::forget_other_threads() noexcept {
  const auto* const this_thread = mine();
  for (auto* r = records.load(std::memory_order_acquire); r != nullptr; r = r->next) {
    if (r != this_thread) r->depth.store(0, std::memory_order_relaxed);
  }
}

}  // namespace sluice::detail
