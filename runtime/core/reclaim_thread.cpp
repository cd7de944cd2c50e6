// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/reclaim_thread.hpp"

#include "runtime/core/runtime_core.hpp"
#include "runtime/devices/open_devices.hpp"

#include <sluice/runtime/user_code_scope.hpp>

#include <chrono>
#include <utility>

namespace sluice::detail {
namespace {

thread_local const reclaim_thread* current_reclaimer = nullptr;

}  // namespace

void reclaim_thread::add(std::span<const timeline_point> points, allocation memory,
                         reclaim_function reclaim, void* owner) {
  std::list<item> new_items;
  new_items.push_back({{}, memory, reclaim, owner});
  new_items.back().points.append(points);
  {
    const std::lock_guard lock(mutex_);
    begin();
    inbox_.splice(inbox_.end(), new_items);
    idle_ = false;
  }
  changed_.notify_one();
}

void reclaim_thread::wake() noexcept {
  if (woken_.exchange(true, std::memory_order_acq_rel)) return;
  {
    const std::lock_guard lock(mutex_);  // otherwise the thread could miss the notification
    if (!begun_) return woken_.store(false, std::memory_order_relaxed);
    // If the thread has drained meanwhile, nothing would set `idle_` to true again.
    if (woken_.load(std::memory_order_relaxed)) idle_ = false;
  }
  changed_.notify_one();
}

void reclaim_thread::finish(const item& i) noexcept {
  if (i.reclaim != nullptr) i.reclaim(i.owner, i.memory);
}

void reclaim_thread::finish_ready() noexcept {
  if (runs_here()) return;
  std::unique_lock lock(mutex_);
  // The current pass may have passed the item already.
  const auto target_pass = passes_ + 2;
  pass_requested_ = true;
  changed_.notify_one();
  (void)passed_.wait_for(lock, std::chrono::seconds(1),
                         [&] { return idle_ || stopping_ || passes_ >= target_pass; });
}

bool reclaim_thread::idle_by(std::chrono::steady_clock::time_point end) noexcept {
  std::unique_lock lock(mutex_);
  while (!idle_) {
    if (end == std::chrono::steady_clock::time_point::max()) {
      passed_.wait(lock);
    } else if (passed_.wait_until(lock, end) == std::cv_status::timeout) {
      return idle_;
    }
  }
  return true;
}

void reclaim_thread::start() {
  const std::lock_guard lock(mutex_);
  begin();
}

void reclaim_thread::begin() {
  if (begun_) return;
  thread_ = std::thread([this] {
    core_.device().prepare_own_thread();
    run();
  });
  begun_ = true;
}

void reclaim_thread::add(deferred* object) noexcept {
  if (core_.device().inherited()) return leave_to_parent(object);
  if (object->is_import()) foreign_.fetch_add(1, std::memory_order_relaxed);
  if (object->ends_first()) users_.fetch_add(1, std::memory_order_relaxed);
  deferrals_.fetch_add(1, std::memory_order_relaxed);
  try {
    const std::lock_guard lock(mutex_);
    begin();
    idle_ = false;
    object->next_ = std::exchange(arrived_deferred_, object);
    changed_.notify_one();  // under the lock: `object` may hold the last share of the core
  } catch (...) {
    if (object->is_import() || object->ends_first()) {
      let_go(object);
    } else {
      report(
          "owners of launches on a lost device are leaked: the reclaim thread could not be "
          "started");
    }
  }
}

void reclaim_thread::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!begun_) return;
    stopping_ = true;
  }
  changed_.notify_one();
  passed_.notify_all();
  thread_.join();
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (inbox_.empty() && arrived_deferred_ == nullptr &&
          !woken_.load(std::memory_order_relaxed)) {
        begun_ = false;
        stopping_ = false;
        return;
      }
    }
    run();  // work that arrived while the thread was ending
  }
}

bool reclaim_thread::is_reclaim_thread() noexcept {
  return current_reclaimer != nullptr;
}

bool reclaim_thread::runs_here() const noexcept {
  return current_reclaimer == this;
}

bool reclaim_thread::idle() const noexcept {
  const std::lock_guard lock(mutex_);
  return idle_;
}

void reclaim_thread::let_go(deferred* object) noexcept {
  const auto core = std::move(object->core_);
  const bool import = object->is_import();
  const bool user = object->ends_first();
  {
    const user_code_scope users;  // a producer's deleter or a library handle
    delete object;
  }
  // The end of a runtime waits for the other counters, so they follow.
  deferrals_.fetch_sub(1, std::memory_order_release);
  if (user) users_.fetch_sub(1, std::memory_order_release);
  if (import) {
    core->count_import(-1);
    foreign_.fetch_sub(1, std::memory_order_release);
  }
}

bool reclaim_thread::passed(timeline_point point) noexcept {
  auto* source = core_.find(point.stream);
  if (source == nullptr) return true;  // unreachable: the caller checked the points
  source->advance();
  if (!source->completed(point.ticket)) return false;
  source->acquire(point.ticket);
  return true;
}

bool reclaim_thread::ready(item& i) noexcept {
  while (!i.points.empty()) {
    if (core_.device().lost()) {
      // A task may still run, so the memory stays with the device. An item without memory waits for
      // quiescence.
      if (i.memory.address == nullptr) return core_.quiescent();
      i.reclaim = nullptr;
      return true;
    }
    if (!passed(i.points.back())) return false;
    i.points.swap_remove(i.points.size() - 1);
  }
  return true;
}

bool foreign_memory::ready(reclaim_thread& reclaimer) noexcept {
  // A lost launch has no point and may still run.
  if (reclaimer.core().device().lost()) return reclaimer.core().quiescent();
  return uses_.drop_if([&reclaimer](timeline_point point) { return reclaimer.passed(point); });
}

void reclaim_thread::run() noexcept {
  const auto* const previous = std::exchange(current_reclaimer, this);
  std::list<item> pending;
  deferred* later = nullptr;
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto arrived = [this] {
        return !inbox_.empty() || arrived_deferred_ != nullptr ||
               woken_.load(std::memory_order_relaxed);
      };
      if (pending.empty() && later == nullptr) {
        changed_.wait(lock, [&] { return stopping_ || arrived(); });
        pause = std::chrono::microseconds(50);
      } else {
        changed_.wait_for(lock, pause, [&] { return pass_requested_ || arrived(); });
        pause = std::min(pause * 2, std::chrono::microseconds(1000));
      }
      pass_requested_ = false;
      pending.splice(pending.end(), inbox_);
      while (arrived_deferred_ != nullptr) {
        auto* first = std::exchange(arrived_deferred_, arrived_deferred_->next_);
        first->next_ = std::exchange(later, first);
      }
      if (stopping_ && pending.empty() && later == nullptr &&
          !woken_.load(std::memory_order_relaxed)) {
        break;
      }
      idle_ = false;
    }
    // Acquire: pushes before `wake` are visible.
    if (woken_.exchange(false, std::memory_order_acq_rel)) core_.releases().drain();
    pending.remove_if([this](item& i) {
      if (!ready(i)) return false;
      finish(i);
      return true;
    });
    for (auto** link = &later; *link != nullptr;) {
      if (auto* object = *link; object->ready(*this)) {
        *link = object->next_;
        let_go(object);
      } else {
        link = &object->next_;
      }
    }
    {
      const std::lock_guard lock(mutex_);
      ++passes_;
      idle_ = pending.empty() && later == nullptr && inbox_.empty() &&
              arrived_deferred_ == nullptr && !woken_.load(std::memory_order_relaxed);
      pass_requested_ = pass_requested_ && !idle_;
    }
    passed_.notify_all();
  }
  current_reclaimer = previous;
}

}  // namespace sluice::detail
