// SPDX-License-Identifier: Apache-2.0
#include "runtime/seam.hpp"

#include <sluice/envelope/timer.hpp>

#include <condition_variable>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace sluice {

class steady_timer::state {
 public:
  explicit state(std::shared_ptr<sluice::device> device) : device_(std::move(device)) {}
  [[nodiscard]] sluice::device& device() const noexcept { return *device_; }

  /// A share of its own, because `expired` may destroy the timer before this returns.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  static ticket call_at(const std::shared_ptr<state> shared, time_point time,
                        std::function<void()> expired) {
    auto& s = *shared;
    ticket result{time};
    {
      const std::lock_guard lock(s.mutex_);
      if (!s.thread_.joinable()) s.thread_ = std::thread([shared] { shared->run(); });
      result.number = ++s.last_number_;
      s.pending_calls_.emplace(std::pair(time, result.number), std::move(expired));
    }
    s.changed_.notify_one();
    return result;
  }
  void cancel(const ticket& call) noexcept {
    calls::node_type dropped;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    dropped = pending_calls_.extract({call.when, call.number});
  }

  /// Ends the thread. A function that drops the last owner of the timer runs on that thread, which
  /// cannot join itself.
  void end() noexcept {
    calls dropped;
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      dropped.swap(pending_calls_);
    }
    changed_.notify_one();
    if (!thread_.joinable()) return;
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

 private:
  using calls = std::map<std::pair<time_point, std::uint64_t>, std::function<void()>>;

  void run() noexcept {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      if (pending_calls_.empty()) {
        changed_.wait(lock);
      } else if (const auto first = pending_calls_.begin()->first.first; first > steady_now()) {
        changed_.wait_until(lock, first);
      } else {
        auto next = pending_calls_.extract(pending_calls_.begin());
        lock.unlock();
        next.mapped()();
        next = {};
        lock.lock();
      }
    }
  }
  [[nodiscard]] static time_point steady_now() noexcept { return std::chrono::steady_clock::now(); }

  std::shared_ptr<sluice::device> device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  calls pending_calls_;
  std::uint64_t last_number_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

timer::time_point deadline_after(std::chrono::nanoseconds limit) noexcept {
  return detail::deadline_after(limit);
}

steady_timer::steady_timer(std::shared_ptr<sluice::device> device)
    : state_(std::make_shared<state>(std::move(device))) {}

steady_timer::~steady_timer() {
  if (state_->device().inherited()) {
    detail::leave_to_parent(new (std::nothrow) std::shared_ptr<state>(state_));
    return;
  }
  state_->end();
}

timer::ticket steady_timer::call_at(time_point time, std::function<void()> expired) {
  if (state_->device().inherited()) state_->device().require_usable();
  return state::call_at(state_, time, std::move(expired));
}

void steady_timer::cancel(const ticket& call) noexcept {
  if (!state_->device().inherited()) state_->cancel(call);
}

}  // namespace sluice
