#include "runtime/reclaim_thread.hpp"

#include "runtime/runtime_core.hpp"

#include <chrono>
#include <iterator>

namespace sluice::detail {

void reclaim_thread::add(std::span<const timeline_point> points, allocation memory,
                         reclaim_function reclaim, void* owner) {
  item added{{}, memory, reclaim, owner};
  added.points.append(points);
  {
    std::unique_lock lock(mutex_);
    if (stopping_) {
      lock.unlock();
      while (!ready(added)) std::this_thread::sleep_for(std::chrono::microseconds(50));
      finish(added);
      return;
    }
    arrived_.push_back(std::move(added));
    idle_ = false;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
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

void reclaim_thread::stop() noexcept {
  std::thread ended;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ended.swap(thread_);
  }
  changed_.notify_one();
  passed_.notify_all();
  if (ended.joinable()) ended.join();
}

bool reclaim_thread::ready(item& i) noexcept {
  while (!i.points.empty()) {
    if (core_.device().lost()) {
      // A task may still run: the memory stays with the device.
      i.reclaim = nullptr;
      return true;
    }
    if (auto* source = core_.find(i.points.back().stream)) {
      source->advance();
      if (!source->completed(i.points.back().ticket)) return false;
      source->acquire(i.points.back().ticket);
    }
    i.points.swap_remove(i.points.size() - 1);
  }
  return true;
}

void reclaim_thread::run() noexcept {
  std::vector<item> waiting;
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto woken = [this] {
        return stopping_ || !arrived_.empty();
      };
      if (waiting.empty()) {
        changed_.wait(lock, woken);
        pause = std::chrono::microseconds(50);
      } else {
        changed_.wait_for(lock, pause, [this] { return asked_ || !arrived_.empty(); });
        pause = std::min(pause * 2, std::chrono::microseconds(1000));
      }
      asked_ = false;
      std::move(arrived_.begin(), arrived_.end(), std::back_inserter(waiting));
      arrived_.clear();
      if (stopping_ && waiting.empty()) return;
    }
    std::erase_if(waiting, [this](item& i) {
      if (!ready(i)) return false;
      finish(i);
      return true;
    });
    {
      const std::lock_guard lock(mutex_);
      ++passes_;
      idle_ = waiting.empty() && arrived_.empty();
      asked_ = asked_ && !idle_;
    }
    passed_.notify_all();
  }
}

}  // namespace sluice::detail
