// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/open_devices.hpp"

#include "runtime/devices/library_call.hpp"
#include "runtime/reports/slow_wait.hpp"
#include "runtime/sync/fork_safe_mutex.hpp"
#include "runtime/sync/turnstile.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

namespace sluice::detail {
namespace {

// The limit of the wait for tasks outside of library calls, which may never end.
constexpr auto task_limit = std::chrono::seconds(10);

constinit std::atomic<std::uint32_t> forks{0};
constinit std::atomic<bool> ending{false};
constinit std::atomic<bool> driver_ending{false};

fork_safe_mutex& left_mutex = *new fork_safe_mutex;  // of `leave_to_parent`; never destroyed
// Constructed in advance, so that the exit of the process needs no memory.
const error& end_of_process =
    *new error(errc::shutting_down, "the process is exiting");  // never destroyed

}  // namespace

open_devices& open_devices::instance() noexcept {
  static constinit open_devices devices;  // never destroyed
  return devices;
}

void open_devices::add(device& device) noexcept {
  {
    const std::lock_guard lock(mutex_);
    device.next_open_ = first_;
    if (first_ != nullptr) first_->previous_open_ = &device;
    first_ = &device;
  }
  // Either `end` finds the device in the list, or its lock orders the flag before this.
  if (process_ends()) device.lose(end_of_process);
}

void open_devices::remove(device& closed) noexcept {
  const std::lock_guard lock(mutex_);
  if (closed.previous_open_ == nullptr && first_ != &closed) return;  // already removed
  (closed.previous_open_ == nullptr ? first_ : closed.previous_open_->next_open_) =
      closed.next_open_;
  if (closed.next_open_ != nullptr) closed.next_open_->previous_open_ = closed.previous_open_;
  closed.next_open_ = closed.previous_open_ = nullptr;
}

void open_devices::before_fork() noexcept {
  mutex_.lock();
  fork_safe_mutex::lock_all();
}

void open_devices::after_fork_in_parent() noexcept {
  fork_safe_mutex::unlock_all();
  mutex_.unlock();
}

void open_devices::after_fork_in_child() noexcept {
  forks.fetch_add(1, std::memory_order_relaxed);
  for (auto* d = first_; d != nullptr; d = d->next_open_) {
    d->inherited_.store(true, std::memory_order_relaxed);
    // Every use of a device checks for loss, so a fork needs no check of its own.
    d->lost_.store(true, std::memory_order_release);
  }
  open_turnstile_in_child();
  library_call::forget_other_threads();
  fork_safe_mutex::unlock_all();
  mutex_.unlock();
}

void open_devices::end() noexcept {
  if (ending.exchange(true, std::memory_order_relaxed)) return;
  {
    const std::lock_guard lock(mutex_);
    for (auto* d = first_; d != nullptr; d = d->next_open_) d->lose(end_of_process);
  }
  using activity = device::activity;
  slow_wait wait;
  const auto limit = std::chrono::steady_clock::now() + task_limit;
  for (;;) {
    auto busiest_activity = activity::none;
    device_id busiest;
    {
      const std::lock_guard lock(mutex_);
      for (auto* d = first_; d != nullptr; d = d->next_open_) {
        const auto current = d->inherited() ? activity::none : d->running();
        if (current > busiest_activity) busiest = d->id();
        busiest_activity = std::max(busiest_activity, current);
      }
    }
    const bool calls = library_call::running_elsewhere();
    if (busiest_activity == activity::none && !calls) return;
    if (busiest_activity != activity::library_call && std::chrono::steady_clock::now() >= limit)
      return;
    wait.look([&] {
      if (busiest_activity == activity::none)
        return std::string("exiting the process: waiting for a launch");
      return "exiting the process: waiting for " +
             std::string(busiest_activity == activity::task ? "a task" : "a library call") +
             " on " + to_string(busiest);
    });
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void open_devices::end_driver_calls() noexcept {
  end();
  driver_ending.store(true, std::memory_order_relaxed);
  const auto limit = std::chrono::steady_clock::now() + task_limit;
  while (library_call::running_elsewhere() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

bool driver_ends() noexcept {
  return driver_ending.load(std::memory_order_relaxed);
}

bool process_ends() noexcept {
  return ending.load(std::memory_order_relaxed);
}

std::uint32_t fork_depth() noexcept {
  return forks.load(std::memory_order_relaxed);
}

void leave_to_parent(const void* object) noexcept {
  const std::lock_guard lock(left_mutex);
  try {
    static auto& objects = *new std::vector<const void*>;
    objects.push_back(object);
  } catch (...) {
    // Only a leak checker would miss the pointer.
  }
}

namespace {

struct process_hooks {
  process_hooks() noexcept {
    (void)pthread_atfork([] { open_devices::instance().before_fork(); },
                         [] { open_devices::instance().after_fork_in_parent(); },
                         [] { open_devices::instance().after_fork_in_child(); });
  }
  process_hooks(const process_hooks&) = delete;
  process_hooks& operator=(const process_hooks&) = delete;
  ~process_hooks() { open_devices::instance().end_driver_calls(); }
};
// Constructed when the library is loaded, hence destroyed after the static objects of the program.
const process_hooks hooks;

}  // namespace
}  // namespace sluice::detail
