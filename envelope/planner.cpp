// SPDX-License-Identifier: Apache-2.0
#include "runtime/seam.hpp"

#include <sluice/envelope/planner.hpp>

#include <algorithm>
#include <array>
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
  state(std::shared_ptr<sluice::device> device, std::size_t threads)
      : device_(std::move(device)), threads_(threads) {}
  /// Whether the state belongs to the parent of this process, which forked.
  [[nodiscard]] bool inherited() const noexcept { return device_->inherited(); }

  /// A share of its own, because `job` may destroy the planner before this returns.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  static void post(const std::shared_ptr<state> shared, const client* owner,
                   std::function<void()> job, job_length length) {
    auto& s = *shared;
    s.device_->require_usable();
    const std::lock_guard lock(s.mutex_);
    const auto number = static_cast<std::size_t>(length);
    const auto worker = s.threads_ == 1 ? 0 : std::min(number, long_jobs);
    auto& thread = s.workers_[worker];
    if (!thread.joinable()) thread = std::thread([shared, worker] { shared->run(worker); });
    auto& turns = s.queues_[number].turns;
    const auto turn =
        std::find_if(turns.begin(), turns.end(), [&](const jobs& j) { return j.owner == owner; });
    if (turn != turns.end()) {
      turn->functions.push_back(std::move(job));
    } else {
      jobs new_jobs{owner, {}};
      new_jobs.functions.push_back(std::move(job));
      turns.push_back(std::move(new_jobs));
    }
    s.changed_.notify_all();
  }

  /// Drops the jobs of a client that have not begun.
  void drop_waiting(const client* owner) noexcept {
    // A child of fork has no planner thread, and the lock may be held for ever.
    if (device_->inherited()) return;
    std::list<jobs> dropped;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    for (auto& each : queues_) {
      for (auto turn = each.turns.begin(); turn != each.turns.end();) {
        const auto next = std::next(turn);
        if (turn->owner == owner) dropped.splice(dropped.end(), each.turns, turn);
        turn = next;
      }
    }
    auto& idle = queues_[idle_jobs];
    if (idle.running_client == owner) idle.is_dropped = true;
  }
  /// As `client::others_wait`.
  [[nodiscard]] bool others_wait(const client* owner) noexcept {
    const std::lock_guard lock(mutex_);
    const auto& idle = queues_[idle_jobs];
    const bool is_dropped = idle.running_client == owner && idle.is_dropped;
    return ending_ || is_dropped || next_of_others(threads_ - 1) != nullptr;
  }
  /// Waits for the job of a client that runs.
  void await(const client* owner) noexcept {
    if (device_->inherited()) return;
    std::unique_lock lock(mutex_);
    // A job may drop the last owner of its own client. It then touches nothing of it any more.
    changed_.wait(lock, [&] {
      return std::all_of(queues_.begin(), queues_.end(), [&](const queue& each) {
        return each.running_client != owner || each.thread == std::this_thread::get_id();
      });
    });
  }

  /// Ends the threads. A job that drops the last owner of the planner runs on one of them, which
  /// cannot join itself.
  void end() noexcept {
    std::list<jobs> dropped;
    {
      const std::lock_guard lock(mutex_);
      for (auto& each : queues_) dropped.splice(dropped.end(), each.turns);
      ending_ = true;
    }
    changed_.notify_all();
    for (auto& thread : workers_) {
      if (!thread.joinable()) continue;
      if (thread.get_id() == std::this_thread::get_id()) {
        thread.detach();
      } else {
        thread.join();
      }
    }
  }

 private:
  struct jobs {
    const client* owner;
    std::deque<std::function<void()>> functions;
  };
  /// The jobs of one length.
  struct queue {
    std::list<jobs> turns;
    const client* running_client = nullptr;
    std::thread::id thread{};
    bool is_dropped = false;  // the running client is about to end, or has ended
  };
  static constexpr std::size_t short_jobs = 0;
  static constexpr std::size_t long_jobs = 1;
  static constexpr std::size_t idle_jobs = 2;
  static constexpr std::size_t most_passed = 16;

  /// The queue with the next short or long job of a thread; nullptr if none has one.
  [[nodiscard]] queue* next_of_others(std::size_t worker) noexcept {
    if (threads_ != 1) return queues_[worker].turns.empty() ? nullptr : &queues_[worker];
    auto& first = queues_[short_jobs];
    auto& second = queues_[long_jobs];
    if (second.turns.empty()) return first.turns.empty() ? nullptr : &first;
    return !first.turns.empty() && short_jobs_ < most_passed ? &first : &second;
  }
  /// The queue with the next job of a thread; nullptr if none has one.
  [[nodiscard]] queue* next(std::size_t worker) noexcept {
    if (auto* const others = next_of_others(worker)) return others;
    auto& idle = queues_[idle_jobs];
    return worker != threads_ - 1 || idle.turns.empty() ? nullptr : &idle;
  }
  /// Counts the short jobs that pass a long one, with one thread.
  void note_begun(const queue& begun) noexcept {
    const bool passes = &begun == &queues_[short_jobs] && !queues_[long_jobs].turns.empty();
    short_jobs_ = passes ? short_jobs_ + 1 : 0;
  }

  void run(std::size_t worker) noexcept {
    device_->prepare_own_thread();
    std::unique_lock lock(mutex_);
    while (true) {
      queue* queue_to_run = nullptr;
      changed_.wait(lock, [&] { return ending_ || (queue_to_run = next(worker)) != nullptr; });
      if (ending_) return;
      note_begun(*queue_to_run);
      queue_to_run->is_dropped = false;
      auto& turns = queue_to_run->turns;
      auto job = std::move(turns.front().functions.front());
      turns.front().functions.pop_front();
      queue_to_run->running_client = turns.front().owner;
      queue_to_run->thread = std::this_thread::get_id();
      lock.unlock();
      job();
      job = nullptr;
      lock.lock();
      // The client goes behind all that have come meanwhile. It may have been dropped.
      if (!turns.empty() && turns.front().owner == queue_to_run->running_client) {
        if (turns.front().functions.empty()) {
          turns.pop_front();
        } else {
          turns.splice(turns.end(), turns, turns.begin());
        }
      }
      queue_to_run->running_client = nullptr;
      changed_.notify_all();
    }
  }

  std::shared_ptr<sluice::device> device_;
  const std::size_t threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<queue, 3> queues_;  // by length
  std::size_t short_jobs_ = 0;   // short jobs before a long one, with one thread
  bool ending_ = false;
  std::array<std::thread, 2> workers_;
};

planner::planner(std::shared_ptr<sluice::device> device, std::size_t threads) {
  const bool on_host = device->id().kind == device_kind::host;
  state_ = std::make_shared<state>(std::move(device), threads != 0 ? threads : on_host ? 2 : 1);
}
planner::~planner() {
  if (state_->inherited()) {
    detail::leave_to_parent(new (std::nothrow) std::shared_ptr<state>(state_));
    return;
  }
  state_->end();
}

planner::client::client(planner& planner) noexcept : state_(planner.state_) {}
planner::client::~client() {
  drop_waiting();
  state_->await(this);
}
void planner::client::drop_waiting() noexcept {
  state_->drop_waiting(this);
}
bool planner::client::others_wait() const noexcept {
  return state_->others_wait(this);
}
void planner::client::post(std::function<void()> job, job_length length) {
  state::post(state_, this, std::move(job), length);
}

}  // namespace sluice
