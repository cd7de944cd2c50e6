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
    const std::lock_guard lock(mutex_);
    arrived_.push_back(std::move(added));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_one();
}

void reclaim_thread::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (!thread_.joinable()) return;
  }
  changed_.notify_one();
  thread_.join();
  thread_ = {};
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
        changed_.wait_for(lock, pause, [this] { return !arrived_.empty(); });
        pause = std::min(pause * 2, std::chrono::microseconds(1000));
      }
      std::move(arrived_.begin(), arrived_.end(), std::back_inserter(waiting));
      arrived_.clear();
      if (stopping_ && waiting.empty()) return;
    }
    std::erase_if(waiting, [this](item& i) {
      if (!ready(i)) return false;
      if (i.reclaim != nullptr) i.reclaim(i.owner, i.memory);
      return true;
    });
  }
}

}  // namespace sluice::detail
