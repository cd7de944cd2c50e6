#include "runtime/reclaim_thread.hpp"

#include "runtime/runtime_core.hpp"

#include <chrono>
#include <iterator>
#include <utility>

namespace sluice::detail {
namespace {

thread_local bool in_reclaim_thread = false;

}  // namespace

void reclaim_thread::add(std::span<const timeline_point> points, allocation memory,
                         reclaim_function reclaim, void* owner) {
  item added{{}, memory, reclaim, owner};
  added.points.append(points);
  {
    const std::lock_guard lock(mutex_);
    begin();
    arrived_.push_back(std::move(added));
    idle_ = false;
  }
  changed_.notify_one();
}

void reclaim_thread::finish(const item& i) noexcept {
  if (i.reclaim != nullptr) i.reclaim(i.owner, i.memory);
}

void reclaim_thread::finish_ready() noexcept {
  std::unique_lock lock(mutex_);
  // The pass that is under way may have looked already.
  const auto wanted = passes_ + 2;
  asked_ = true;
  changed_.notify_one();
  (void)passed_.wait_for(lock, std::chrono::seconds(1),
                         [&] { return idle_ || stopping_ || passes_ >= wanted; });
}

void reclaim_thread::start() {
  const std::lock_guard lock(mutex_);
  begin();
}

void reclaim_thread::begin() {
  if (begun_) return;
  thread_ = std::thread([this] { run(); });
  begun_ = true;
}

void reclaim_thread::add(foreign_memory* memory) noexcept {
  foreign_.fetch_add(1, std::memory_order_relaxed);
  try {
    const std::lock_guard lock(mutex_);
    begin();
    idle_ = false;
    memory->next_ = std::exchange(arrived_foreign_, memory);
    changed_.notify_one();  // under the lock: it may hold the last share of the core
  } catch (...) {
    give_back(memory);
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
      if (arrived_.empty() && arrived_foreign_ == nullptr) {
        begun_ = false;
        stopping_ = false;
        return;
      }
    }
    run();  // what came while the thread was ending
  }
}

bool reclaim_thread::is_reclaim_thread() noexcept {
  return in_reclaim_thread;
}

void reclaim_thread::give_back(foreign_memory* memory) noexcept {
  const auto core = std::move(memory->core_);
  delete memory;
  core->count_import(-1);
  foreign_.fetch_sub(1, std::memory_order_release);
}

bool reclaim_thread::passed(timeline_point point) noexcept {
  auto* source = core_.find(point.stream);
  if (source == nullptr) return true;
  source->advance();
  if (!source->completed(point.ticket)) return false;
  source->acquire(point.ticket);
  return true;
}

bool reclaim_thread::ready(item& i) noexcept {
  while (!i.points.empty()) {
    if (core_.device().lost()) {
      // A task may still run: the memory stays with the device. What is only kept goes behind it.
      if (i.memory.address == nullptr) return core_.quiescent();
      i.reclaim = nullptr;
      return true;
    }
    if (!passed(i.points.back())) return false;
    i.points.swap_remove(i.points.size() - 1);
  }
  return true;
}

bool reclaim_thread::ready(foreign_memory& memory) noexcept {
  // A launch that was lost has no point, and may be running.
  if (core_.device().lost()) return core_.quiescent();
  return memory.uses_.drop_if([this](timeline_point point) { return passed(point); });
}

void reclaim_thread::run() noexcept {
  in_reclaim_thread = true;
  std::vector<item> waiting;
  foreign_memory* foreign = nullptr;
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto arrived = [this] {
        return !arrived_.empty() || arrived_foreign_ != nullptr;
      };
      if (waiting.empty() && foreign == nullptr) {
        changed_.wait(lock, [&] { return stopping_ || arrived(); });
        pause = std::chrono::microseconds(50);
      } else {
        changed_.wait_for(lock, pause, [&] { return asked_ || arrived(); });
        pause = std::min(pause * 2, std::chrono::microseconds(1000));
      }
      asked_ = false;
      std::move(arrived_.begin(), arrived_.end(), std::back_inserter(waiting));
      arrived_.clear();
      while (arrived_foreign_ != nullptr) {
        auto* first = std::exchange(arrived_foreign_, arrived_foreign_->next_);
        first->next_ = std::exchange(foreign, first);
      }
      if (stopping_ && waiting.empty() && foreign == nullptr) break;
    }
    std::erase_if(waiting, [this](item& i) {
      if (!ready(i)) return false;
      finish(i);
      return true;
    });
    for (auto** link = &foreign; *link != nullptr;) {
      if (auto* memory = *link; ready(*memory)) {
        *link = memory->next_;
        give_back(memory);
      } else {
        link = &memory->next_;
      }
    }
    {
      const std::lock_guard lock(mutex_);
      ++passes_;
      idle_ =
          waiting.empty() && foreign == nullptr && arrived_.empty() && arrived_foreign_ == nullptr;
      asked_ = asked_ && !idle_;
    }
    passed_.notify_all();
  }
  in_reclaim_thread = false;
}

}  // namespace sluice::detail
