// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/planning.hpp"

#include "operations/executor/batch_growth.hpp"
#include "runtime/seam.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <iterator>
#include <span>

namespace sluice::operations {
namespace {

/// The work of the planner from which on a job is a long one.
constexpr double work_of_long_job = 1 << 24U;

/// Wakes the owner of an executor if the device is lost while a plan is being made.
class loss_watch final : public detail::deferred {
 public:
  loss_watch(std::shared_ptr<device> device, std::weak_ptr<const plan_job> job,
             std::shared_ptr<owner_mailbox> mailbox) noexcept
      : device_(std::move(device)), job_(std::move(job)), mailbox_(std::move(mailbox)) {}
  ~loss_watch() override {
    if (lost_) mailbox_->wake();
  }

 private:
  [[nodiscard]] bool ready(detail::reclaim_thread&) noexcept override {
    if (is_over()) return true;
    return lost_ = device_->lost();
  }
  // Otherwise it would keep the runtime for a moment after the end of its last executor.
  [[nodiscard]] bool ends_first() const noexcept override { return true; }
  /// Whether the planner has made the plan, or dropped the job with its executor.
  [[nodiscard]] bool is_over() const noexcept {
    const auto job = job_.lock();
    return job == nullptr || job->is_made.load(std::memory_order_acquire);
  }

  std::shared_ptr<device> device_;
  std::weak_ptr<const plan_job> job_;
  std::shared_ptr<owner_mailbox> mailbox_;
  bool lost_ = false;  // before the plan was made
};

/// The limits of one plan.
struct limits_of_plan {
  price_limits prices;
  std::size_t device_bytes;
};

/// The limits of a plan with what its batches need.
[[nodiscard]] plan_limits limits_of_batches(const limits_of_plan& limits) noexcept {
  return {limits.prices.max_host_bytes(), limits.device_bytes};
}

/// Makes the plan of a job, which the reclaim thread destroys after its last use: destroying a plan
/// of a GPU may synchronize the device.
std::shared_ptr<const operation_plan> make_plan(plan_job& job, lane_libraries& libraries,
                                                const limits_of_plan& limits,
                                                std::shared_ptr<plan_account> account) {
  const auto& descriptor = *job.key.descriptor;
  auto& runtime = libraries.runtime();
  auto plan = descriptor.make_plan(libraries, *job.call);
  if (!plan) throw error(errc::library_failure, "no plan was made");
  limits.prices.require(descriptor, {plan->bytes(), 0});
  const std::size_t device_bytes = plan->device_bytes();
  price_limit{static_cast<double>(limits.device_bytes), "executor_options",
              "max_device_bytes_of_plan"}
      .require(descriptor.name(), ": the plan needs ",
               static_cast<double>(device_bytes + plan->workspace_bytes()),
               " bytes of device memory");
  job.device_bytes = job.shared_device_bytes + device_bytes;
  auto charge = device_bytes != 0 ? runtime.reserve_memory(std::span(&device_bytes, 1))
                                  : memory_reservation();
  plan->add_batches(libraries, limits_of_batches(limits));
  const auto owner = detail::share_with_deferred_destruction(
      detail::runtime_core::of(runtime),
      std::make_unique<accounted_plan>(std::move(plan), std::move(charge), std::move(account)));
  return {owner, owner->get()};
}

/// How long a sender rests after a plan that has failed, as the last one of `failures`.
timer::time_point::duration rest_after(const plan_job& job, unsigned failures) noexcept {
  constexpr unsigned max_factor = 99;  // times the time that the plan took
  constexpr timer::time_point::duration max_rest = std::chrono::seconds(1);
  const auto factor = failures < 7 ? (1U << failures) - 1 : max_factor;
  return job.duration < max_rest / factor ? job.duration * factor : max_rest;
}
// How long failures count after the rest.
constexpr auto memory_of_failures = std::chrono::seconds(1);

void make(plan_job& job, lane_libraries& libraries, const limits_of_plan& limits,
          std::shared_ptr<plan_account> account) noexcept {
  const auto& descriptor = *job.key.descriptor;
  const auto& device = libraries.runtime().device();
  const detail::no_room_wait_scope no_wait;  // other plans wait for the thread
  const auto start = std::chrono::steady_clock::now();
  try {
    device.require_usable();
    if (job.grown_plan != nullptr) {
      job.grown_plan->growth()->make(job.batch_size, libraries, limits_of_batches(limits),
                                     [] { return false; });
      return;
    }
    descriptor.prepare(libraries);
    descriptor_of(operation_type<strided_copy>{}).prepare(libraries);  // for packed operands
    if (job.call) job.outcome.plan = make_plan(job, libraries, limits, std::move(account));
  } catch (...) {
    job.outcome.failure = current_error();
  }
  job.duration = std::chrono::steady_clock::now() - start;
}

}  // namespace

planning::~planning() {
  if (alarm_) service_.timer().cancel(*alarm_);
  growth_.reset();
  turns_.clear();
  // One by one: each job owns the next one.
  for (auto job = mailbox_->take(); job != nullptr;) job = std::exchange(job->next, nullptr);
}

std::shared_ptr<const plan_job> planning::request(plan_key key, const call_storage* call,
                                                  request_sender sender,
                                                  std::shared_ptr<const void> owner,
                                                  std::size_t shared_device_bytes) {
  const auto [entry, is_new] = jobs_.try_emplace(key);
  if (!is_new) return join(entry->second.lock(), sender);
  try {
    auto job = std::make_shared<plan_job>();
    job->key = std::move(key);
    if (call != nullptr) {
      const auto& descriptor = *job->key.descriptor;
      job->price = descriptor.price_of_plan(libraries_->runtime().device().id().kind, *call);
      prices_.require(descriptor, job->price);
      job->call = *call;
    }
    job->owner = std::move(owner);
    job->shared_device_bytes = shared_device_bytes;
    job->device_bytes = shared_device_bytes;
    entry->second = job;
    add(job, sender);
    return job;
  } catch (...) {
    jobs_.erase(entry);
    throw;  // a turn without jobs stays for the next job of the sender
  }
}

std::shared_ptr<const plan_job> planning::request_batches(
    plan_key key, std::shared_ptr<const operation_plan> plan, request_sender sender) {
  key.part = plan_part::batches;
  const auto [entry, is_new] = jobs_.try_emplace(key);
  if (!is_new) return join(entry->second.lock(), sender);
  try {
    auto job = std::make_shared<plan_job>();
    job->key = std::move(key);
    job->batch_size = plan->growth()->next_size();
    job->grown_plan = std::move(plan);
    job->price.work = work_of_long_job;
    entry->second = job;
    add(job, sender);
    return job;
  } catch (...) {
    jobs_.erase(entry);
    throw;
  }
}

void planning::add(const std::shared_ptr<plan_job>& job, request_sender sender) {
  job->sender = sender;
  job->senders.push_back(sender);
  turns_.try_emplace(sender, service_.planner()).first->second.waiting.push_back(job);
}

std::shared_ptr<const plan_job> planning::join(std::shared_ptr<plan_job> job,
                                               request_sender sender) {
  auto& senders = job->senders;
  if (std::find(senders.begin(), senders.end(), sender) == senders.end()) {
    senders.push_back(sender);
  }
  move_to_best_turn(job);
  return job;
}

void planning::move_to_best_turn(const std::shared_ptr<plan_job>& job) {
  auto& old_turn = turns_.find(job->sender)->second;
  auto min_failures = old_turn.failures;
  auto new_sender = job->sender;
  for (const auto& sender : job->senders) {
    if (min_failures == 0) break;
    const auto found = turns_.find(sender);
    const auto failures = found == turns_.end() ? 0 : found->second.failures;
    if (failures < min_failures) {
      min_failures = failures;
      new_sender = sender;
    }
  }
  if (new_sender == job->sender) return;
  const auto position = std::find(old_turn.waiting.begin(), old_turn.waiting.end(), job);
  if (position == old_turn.waiting.end()) return;
  turns_.try_emplace(new_sender, service_.planner()).first->second.waiting.push_back(job);
  old_turn.waiting.erase(position);
  job->sender = new_sender;
}

void planning::start() noexcept {
  const auto now = service_.timer().now();
  bool failed = false;
  std::optional<timer::time_point> first_end;  // of the rests of those who have waiting jobs
  for (auto entry = turns_.begin(); entry != turns_.end();) {
    auto& sender_turn = entry->second;
    if (sender_turn.rests_until <= now) {
      failed = !start(sender_turn) || failed;
    } else if (!sender_turn.waiting.empty()) {
      first_end = std::min(first_end.value_or(sender_turn.rests_until), sender_turn.rests_until);
    }
    const bool is_idle = sender_turn.started == 0 && sender_turn.waiting.empty();
    const bool is_forgotten =
        sender_turn.failures == 0 || sender_turn.rests_until + memory_of_failures <= now;
    entry = is_idle && is_forgotten ? turns_.erase(entry) : std::next(entry);
  }
  if (first_end) failed = !set_alarm(*first_end) || failed;
  // Waking the owner may destroy the executor.
  if (failed) std::shared_ptr(mailbox_)->wake();
}

bool planning::start(turn& sender_turn) noexcept {
  bool all_posted = true;
  while (sender_turn.started < (sender_turn.failures == 0 ? max_started : 1) &&
         !sender_turn.waiting.empty()) {
    const auto job = std::move(sender_turn.waiting.front());
    sender_turn.waiting.pop_front();
    const bool is_plan = job->call || job->grown_plan;
    if (is_plan && job.use_count() == 1) {  // its requests have been cancelled
      jobs_.erase(job->key);
      continue;
    }
    ++sender_turn.started;
    try {
      post(sender_turn, job);
    } catch (...) {
      job->outcome.failure = current_error();
      job->is_made = true;  // the watch wakes nobody
      mailbox_->add(job);
      all_posted = false;
    }
  }
  return all_posted;
}

bool planning::set_alarm(timer::time_point time) noexcept {
  auto& timer = service_.timer();
  if (alarm_ && alarm_->when <= time && alarm_->when > timer.now()) return true;
  if (const auto old_alarm = std::exchange(alarm_, std::nullopt)) timer.cancel(*old_alarm);
  try {
    alarm_ = timer.call_at(time, [mailbox = mailbox_] { mailbox->wake(); });
    return true;
  } catch (...) {
    for (auto& each : turns_) each.second.rests_until = {};  // nobody else would end the rests
    return false;
  }
}

void planning::post(turn& sender_turn, const std::shared_ptr<plan_job>& job) {
  const auto& core = detail::runtime_core::of(service_.runtime());
  auto watch = std::make_unique<loss_watch>(core->shared_device(), job, mailbox_);
  const auto length = job->price.work < work_of_long_job ? planner::job_length::short_job
                                                         : planner::job_length::long_job;
  sender_turn.jobs.post(
      [libraries = libraries_, mailbox = mailbox_,
       limits = limits_of_plan{prices_, max_device_bytes_}, account = account_,
       job = std::shared_ptr(job)]() mutable {
        make(*job, *libraries, limits, std::move(account));
        // Waking the owner may destroy the executor, and with it the runtime.
        libraries = nullptr;
        job->is_made.store(true, std::memory_order_release);
        mailbox->add(std::move(job));  // the owner destroys it
        mailbox->wake();
      },
      length);
  core->reclaim_later(std::move(watch));
}

void planning::drop_waiting() noexcept {
  for (auto& each : turns_) each.second.jobs.drop_waiting();
  growth_->drop_waiting();
}

void planning::improve(std::shared_ptr<const operation_plan> plan) noexcept {
  try {
    improvements_.post(
        [libraries = libraries_, account = account_, plan = std::move(plan)] {
          account->improvements.fetch_add(1, std::memory_order_relaxed);
          plan->improve(*libraries);
        },
        planner::job_length::idle_job);
  } catch (...) {
    // The device is lost, or there is no memory. Launches stay as they are.
  }
}

void planning::grow(plan_key key, std::shared_ptr<const operation_plan> plan) noexcept {
  try {
    auto job = std::make_shared<plan_job>();
    job->key = std::move(key);
    job->key.part = plan_part::batches;
    job->batch_size = plan->growth()->next_size();
    job->grown_plan = std::move(plan);
    job->is_idle = true;
    growth_->post(
        [libraries = libraries_, mailbox = mailbox_,
         limits = limits_of_plan{prices_, max_device_bytes_}, client = &*growth_,
         job = std::move(job)]() mutable {
          // The last owner has no use for it.
          if (job->grown_plan.use_count() > 1) {
            job->grown_plan->growth()->make(job->batch_size, *libraries, limits_of_batches(limits),
                                            [client] { return client->others_wait(); });
          }
          // Waking the owner may destroy the executor, and with it the runtime.
          libraries = nullptr;
          mailbox->add(std::move(job));  // the owner destroys it
          mailbox->wake();
        },
        planner::job_length::idle_job);
  } catch (...) {
    // The device is lost, or there is no memory. Batches stay as they are.
  }
}

void planning::adopt_batches(const operation_plan& plan) noexcept {
  const auto bytes = total_bytes(plan);
  plan.growth()->adopt();
  account_->alive_bytes.fetch_add(total_bytes(plan) - bytes, std::memory_order_relaxed);
}

void planning::retry(std::shared_ptr<plan_job> job) {
  auto& sender_turn = turns_.find(job->sender)->second;
  sender_turn.waiting.push_front(job);
  --sender_turn.started;
  job->outcome = {};
  job->is_made = false;
}

void planning::note_taken(const plan_job& job) noexcept {
  if (job.is_idle) return;
  jobs_.erase(job.key);
  const auto found = turns_.find(job.sender);
  auto& sender_turn = found->second;
  --sender_turn.started;
  note(sender_turn, job);
  if (sender_turn.started == 0 && sender_turn.waiting.empty() && sender_turn.failures == 0)
    turns_.erase(found);
}

void planning::note(turn& sender_turn, const plan_job& job) noexcept {
  if (!job.call || job.sender == request_sender()) return;
  if (!job.outcome.failure) {
    sender_turn.failures = 0;
    sender_turn.rests_until = {};
  } else {
    ++sender_turn.failures;
    sender_turn.rests_until = service_.timer().now() + rest_after(job, sender_turn.failures);
    try {
      const std::vector waiting(sender_turn.waiting.begin(), sender_turn.waiting.end());
      for (const auto& each : waiting) {
        if (each->senders.size() > 1) move_to_best_turn(each);
      }
    } catch (...) {
      // Without memory they rest, too.
    }
  }
}

}  // namespace sluice::operations
