// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/shared_runtimes.hpp"

#include "runtime/devices/open_devices.hpp"

#include <utility>

namespace sluice::detail {

shared_runtimes& shared_runtimes::instance() {
  static auto& runtimes =
      *new shared_runtimes([](device_id id) { return open_device(to_string(id)); });
  struct at_exit {
    ~at_exit() { runtimes.end(); }
  };
  static const at_exit teardown;
  return runtimes;
}

bool shared_runtimes::inherited() const noexcept {
  return first_fork_depth_ != unused && first_fork_depth_ != fork_depth();
}

void shared_runtimes::require_open(device_id id) const {
  if (!ended_) return;
  throw error(errc::shutting_down, "the shared runtime of " + to_string(id) +
                                       " has been destroyed: the process is exiting");
}

shared_runtimes::entry& shared_runtimes::settled_entry(device_id id,
                                                       std::unique_lock<fork_safe_mutex>& lock) {
  if (inherited()) {
    throw error(errc::device_lost,
                "the shared runtime of " + to_string(id) +
                    ": shared runtimes belong to the parent process; after fork() a child must "
                    "make its own runtimes");
  }
  changed_.wait(lock, [&] { return ended_ || !entries_[id].in_the_making; });
  require_open(id);
  return entries_[id];
}

device_runtime& shared_runtimes::get(device_id id) {
  std::function<runtime_options()> make_options;
  {
    std::unique_lock lock(mutex_);
    auto& e = settled_entry(id, lock);
    if (e.runtime != nullptr) return *e.runtime;
    first_fork_depth_ = fork_depth();
    runtimes_.reserve(entries_.size());
    e.in_the_making = true;
    make_options = std::move(e.make_options);
  }
  std::unique_ptr<device_runtime> runtime;
  try {
    auto device = open_(id);
    runtime = std::make_unique<device_runtime>(std::move(device),
                                               make_options ? make_options() : runtime_options{});
  } catch (...) {
    finish(id, std::move(make_options), nullptr);
    throw;
  }
  auto& result = *runtime;
  finish(id, std::move(make_options), std::move(runtime));
  return result;
}

void shared_runtimes::finish(device_id id, std::function<runtime_options()>&& make_options,
                             std::unique_ptr<device_runtime> runtime) {
  const std::lock_guard lock(mutex_);
  const bool any = runtime != nullptr;
  if (ended_) {
    if (any) require_open(id);
    return;
  }
  auto& e = entries_[id];
  e.in_the_making = false;
  e.make_options = std::move(make_options);
  e.runtime = runtime.get();
  if (any) runtimes_.push_back(std::move(runtime));
  changed_.notify_all();
}

void shared_runtimes::configure(device_id id, std::function<runtime_options()> make_options) {
  std::unique_lock lock(mutex_);
  auto& e = settled_entry(id, lock);
  if (e.runtime != nullptr) {
    throw error(errc::stream_misuse, "configure: the shared runtime of " + to_string(id) +
                                         " already exists; call configure before get");
  }
  e.make_options.swap(make_options);
}

void shared_runtimes::end() noexcept {
  std::map<device_id, entry> entries;
  std::vector<std::unique_ptr<device_runtime>> runtimes;
  {
    const std::lock_guard lock(mutex_);
    if (inherited()) return;
    ended_ = true;
    entries.swap(entries_);
    runtimes.swap(runtimes_);
  }
  changed_.notify_all();
  while (!runtimes.empty()) runtimes.pop_back();
}

}  // namespace sluice::detail
