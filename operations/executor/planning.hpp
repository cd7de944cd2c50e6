// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/plan_account.hpp"
#include "operations/executor/plan_cache.hpp"
#include "operations/executor/prices.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/planner.hpp>
#include <sluice/envelope/timer.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/operations/request_options.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::operations {

/// A plan, or what a plan needs for larger batches, on its way from the planner to the owner of an
/// executor.
struct plan_job {
  plan_key key;
  std::shared_ptr<const operation_plan> grown_plan{};  // of `plan_part::batches`
  std::size_t batch_size = 0;                          // that `grown_plan` gets
  bool is_idle = false;                                // no request waits for it
  std::optional<call_storage> call;                    // nothing: only the library objects
  std::shared_ptr<const void> owner;                   // of what the call refers to
  request_sender sender;                               // in whose turn it is
  std::vector<request_sender> senders{};               // all that need it
  plan_price price{};                                  // as far as it is known beforehand
  plan_outcome outcome{};                              // written by the planner, before `is_made`
  std::size_t shared_device_bytes = 0;                 // that plans of the call share
  std::size_t device_bytes = 0;  // with these, of the plan, as far as known; likewise
  std::chrono::steady_clock::duration duration{};  // of the planner's time; likewise
  std::atomic<bool> is_made{false};
  std::shared_ptr<plan_job> next{};
};

/// Where the planner, the timer and the loss of the device leave word for the owner of an executor.
/// Thread-safe.
class owner_mailbox {
 public:
  /// Sets the function that wakes the owner. Call it before the first request.
  void on_wake(std::function<void()> wake) { wake_ = std::move(wake); }
  void wake() const {
    if (wake_) wake_();
  }
  void add(std::shared_ptr<plan_job> job) noexcept {
    const std::lock_guard lock(mutex_);
    job->next = std::move(newest_);
    newest_ = std::move(job);
  }
  /// Takes all jobs that have been added, the newest first.
  [[nodiscard]] std::shared_ptr<plan_job> take() noexcept {
    const std::lock_guard lock(mutex_);
    return std::exchange(newest_, nullptr);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<plan_job> newest_;
  std::function<void()> wake_;
};

/// Has plans and library objects made on the planner of a device. Belongs to the owner of an
/// executor; not thread-safe.
///
/// A plan that cannot be made costs all others time, too: libraries of a GPU lock the driver while
/// they plan. A sender whose plans fail one after the other therefore rests after each failure,
/// ever longer, until it takes one percent of the planner's time. Requests without a sender do not
/// rest.
class planning {
 public:
  planning(device_service& service, std::shared_ptr<lane_libraries> libraries,
           std::shared_ptr<owner_mailbox> mailbox, const price_limits& prices,
           std::size_t max_device_bytes)
      : service_(service),
        libraries_(std::move(libraries)),
        mailbox_(std::move(mailbox)),
        prices_(prices),
        max_device_bytes_(max_device_bytes),
        improvements_(service.planner()) {
    growth_.emplace(service.planner());
  }
  planning(const planning&) = delete;
  planning& operator=(const planning&) = delete;
  /// Waits for the jobs that run, and drops all plans that the owner has not taken. The timer may
  /// hold the mailbox for long.
  ~planning();

  /// Returns the job that makes the library objects of an operation, and the plan of `call` if it
  /// is not null. `owner` owns what the call refers to; `shared_device_bytes` is the memory that
  /// the plans of the call share. `start` has it begun. The outcome goes to the mailbox. The owner
  /// is also woken if the device is lost before. A plan whose job nobody holds any more is not
  /// begun. A plan that costs too much is refused here.
  /// @throws error `unsupported` if the plan costs more than the limits
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] std::shared_ptr<const plan_job> request(plan_key key, const call_storage* call,
                                                        request_sender sender,
                                                        std::shared_ptr<const void> owner = {},
                                                        std::size_t shared_device_bytes = 0);
  /// Likewise the job that makes the next size of batches of `plan`, which is the one for `key`.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] std::shared_ptr<const plan_job> request_batches(
      plan_key key, std::shared_ptr<const operation_plan> plan, request_sender sender);
  /// Passes jobs on to the planner: the oldest ones of each sender. The others wait, so that plans
  /// are not made long before they can be launched. Call it while the lane has room, after
  /// `request` and after `note_taken`.
  void start() noexcept;
  /// States that the owner has taken a job from the mailbox.
  void note_taken(const plan_job& job) noexcept;
  /// Returns a job to the front of its sender's turn, which the owner has taken from the mailbox.
  /// @throws std::bad_alloc if there is no memory
  void retry(std::shared_ptr<plan_job> job);
  /// Drops the jobs that the planner has and has not begun. Call it before the end only.
  void drop_waiting() noexcept;
  /// Has the planner improve a plan while the owner uses it. Nothing happens if that fails.
  void improve(std::shared_ptr<const operation_plan> plan) noexcept;
  /// Has an idle job of the planner make the next size of batches of `plan`, which is the one for
  /// `key`. The outcome goes to the mailbox. Nothing happens if that fails.
  void grow(plan_key key, std::shared_ptr<const operation_plan> plan) noexcept;
  /// Lets batches use the sizes that have been made for `plan`, and counts its memory.
  void adopt_batches(const operation_plan& plan) noexcept;
  /// The plans that it has made.
  [[nodiscard]] const plan_account& account() const noexcept { return *account_; }

 private:
  struct turn {
    explicit turn(planner& planner) : jobs(planner) {}
    planner::client jobs;  // destroyed once none of its jobs runs
    std::deque<std::shared_ptr<plan_job>> waiting;
    std::size_t started = 0;
    unsigned failures = 0;  // one after the other
    timer::time_point rests_until{};
  };
  /// The jobs of one sender that the planner has. While the owner takes one, another one is made.
  static constexpr std::size_t max_started = 2;

  /// A sender needs a job that another one has requested.
  [[nodiscard]] std::shared_ptr<const plan_job> join(std::shared_ptr<plan_job> job,
                                                     request_sender sender);
  /// Puts a job at the end of the turn of `sender`.
  void add(const std::shared_ptr<plan_job>& job, request_sender sender);
  void post(turn& sender_turn, const std::shared_ptr<plan_job>& job);
  /// Passes the next jobs of a sender on. Returns false if one has failed because of that.
  [[nodiscard]] bool start(turn& sender_turn) noexcept;
  /// Counts the failures of a sender.
  void note(turn& sender_turn, const plan_job& job) noexcept;
  /// Has the owner woken at `time`. Returns false if there is no memory; then nobody rests.
  [[nodiscard]] bool set_alarm(timer::time_point time) noexcept;
  /// Moves a job that waits behind the failures of its sender to the turn of the one that has had
  /// the fewest, among all that need it.
  void move_to_best_turn(const std::shared_ptr<plan_job>& job);

  device_service& service_;
  std::shared_ptr<lane_libraries> libraries_;
  std::shared_ptr<owner_mailbox> mailbox_;
  price_limits prices_;
  std::size_t max_device_bytes_;
  std::shared_ptr<plan_account> account_ = std::make_shared<plan_account>();
  // Owned by a turn, the planner or the mailbox.
  std::map<plan_key, std::weak_ptr<plan_job>, plan_key_order> jobs_;
  std::map<request_sender, turn> turns_;  // senders take turns
  std::optional<timer::ticket> alarm_;    // when the timer wakes the owner
  planner::client improvements_;
  std::optional<planner::client> growth_;  // idle jobs
};

}  // namespace sluice::operations
