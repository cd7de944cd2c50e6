// SPDX-License-Identifier: Apache-2.0
#include "runtime/seam.hpp"

#include <sluice/envelope/planner.hpp>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace sluice {

class planner::state {
 public:
  explicit state(std::shared_ptr<sluice::device> device) : device_(std::move(device)) {}
  /// Whether the state belongs to the parent of this process, which forked.
  [[nodiscard]] bool inherited() const noexcept { return device_->inherited(); }

  /// A share of its own, because `job` may destroy the planner before this returns.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  static void post(const std::shared_ptr<state> shared, const client* from,
                   std::function<void()> job) {
    auto& s = *shared;
    s.device_->require_usable();
    const std::lock_guard lock(s.mutex_);
    if (!s.thread_.joinable()) s.thread_ = std::thread([shared] { shared->run(); });
    const auto turn = std::find_if(s.turns_.begin(), s.turns_.end(),
                                   [&](const jobs& j) { return j.from == from; });
    if (turn != s.turns_.end()) {
      turn->waiting.push_back(std::move(job));
    } else {
      jobs made{from, {}};
      made.waiting.push_back(std::move(job));
      s.turns_.push_back(std::move(made));
    }
    s.changed_.notify_all();
  }

  void drop(const client* from) noexcept {
    // A child of fork has no planner thread, and the lock may be held for ever.
    if (device_->inherited()) return;
    std::list<jobs> dropped;  // destroyed after the lock is released
    std::unique_lock lock(mutex_);
    for (auto turn = turns_.begin(); turn != turns_.end();) {
      const auto next = std::next(turn);
      if (turn->from == from) dropped.splice(dropped.end(), turns_, turn);
      turn = next;
    }
    // A job may drop the last owner of its own client. It then touches nothing of it any more.
    if (thread_.get_id() == std::this_thread::get_id()) return;
    changed_.wait(lock, [&] { return running_ != from; });
  }

  /// Ends the thread. A job that drops the last owner of the planner runs on that thread, which
  /// cannot join itself.
  void end() noexcept {
    std::list<jobs> dropped;
    {
      const std::lock_guard lock(mutex_);
      dropped.swap(turns_);
      ending_ = true;
    }
    changed_.notify_all();
    if (!thread_.joinable()) return;
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

 private:
  struct jobs {
    const client* from;
    std::deque<std::function<void()>> waiting;
  };

  void run() noexcept {
    device_->prepare_own_thread();
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !turns_.empty(); });
      if (ending_) return;
      // The client at the front has its turn and goes to the back.
      auto& front = turns_.front();
      auto job = std::move(front.waiting.front());
      front.waiting.pop_front();
      running_ = front.from;
      if (front.waiting.empty()) {
        turns_.pop_front();
      } else {
        turns_.splice(turns_.end(), turns_, turns_.begin());
      }
      lock.unlock();
      job();
      job = nullptr;
      lock.lock();
      running_ = nullptr;
      changed_.notify_all();
    }
  }

  std::shared_ptr<sluice::device> device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<jobs> turns_;
  const client* running_ = nullptr;
  bool ending_ = false;
  std::thread thread_;
};

planner::planner(std::shared_ptr<sluice::device> device)
    : state_(std::make_shared<state>(std::move(device))) {}
planner::~planner() {
  if (state_->inherited()) {
    detail::leave_to_parent(new (std::nothrow) std::shared_ptr<state>(state_));
    return;
  }
  state_->end();
}

planner::client::client(planner& on) noexcept : on_(on.state_) {}
planner::client::~client() {
  on_->drop(this);
}
void planner::client::post(std::function<void()> job) {
  state::post(on_, this, std::move(job));
}

}  // namespace sluice
