// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/batch_company.hpp"
#include "operations/executor/batch_growth.hpp"
#include "operations/executor/followed_requests.hpp"
#include "operations/executor/memory_with_plans.hpp"
#include "operations/executor/plan_cache.hpp"
#include "operations/executor/plan_exchange.hpp"
#include "operations/executor/planning.hpp"
#include "operations/executor/prices.hpp"
#include "operations/executor/request_checks.hpp"
#include "operations/executor/request_launcher.hpp"
#include "operations/executor/request_plans.hpp"
#include "operations/executor/request_queue.hpp"
#include "runtime/seam.hpp"

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/operations/executor.hpp>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

namespace sluice {
namespace {

using detail::failure_of;
using detail::operation_request;
using operations::followed_requests;
using operations::memory_with_plans;
using operations::owner_mailbox;
using operations::plan_cache;
using operations::plan_exchange;
using operations::plan_job;
using operations::planning;
using operations::request_launcher;
using operations::request_plans;
using operations::request_queue;

operations::queue_limits limits_of(const executor_options& o) noexcept {
  const auto share = o.max_waiting_of_sender != 0 ? o.max_waiting_of_sender
                                                  : std::max<std::size_t>(1, o.max_waiting / 2);
  return {o.max_waiting, o.max_waiting_bytes, share,
          std::max<std::size_t>(1, o.max_waiting_bytes / 2)};
}

/// The selection of the plans of a lane; used while the service exists.
algorithm_selection selection_of(device_service& service) {
  return {.policy = service.algorithms(), .has_nothing_in_flight = [&service] {
            return service.engine().pending() == 0;
          }};
}

}  // namespace

class executor::core {
 public:
  core(std::shared_ptr<device_service> service, std::shared_ptr<kernel_trace> trace,
       executor_options options)
      : lane_(std::move(service), {.priority = options.priority}),
        libraries_(std::make_shared<lane_libraries>(lane_.runtime(), lane_.stream(),
                                                    selection_of(lane_.service()))),
        cache_(options.max_plan_bytes),
        memory_(lane_.runtime(), cache_),
        prices_(operations::price_limits::from(options, lane_.service().limits(), kind())),
        planning_(lane_.service(), libraries_, mailbox_, prices_, options.max_device_bytes_of_plan),
        plans_(kind(), cache_, memory_, planning_),
        launcher_(lane_, *libraries_, memory_, planning_, std::move(trace)),
        waiting_(limits_of(options)),
        exchange_(plans_, cache_, planning_, mailbox_, options.max_plan_bytes) {
    lane_.keep(libraries_);
  }
  core(const core&) = delete;
  core& operator=(const core&) = delete;
  ~core() {
    // The answers do not wait for a plan that is being made, and no other one is begun after them.
    planning_.drop_waiting();
    fail(waiting_.take_all(), ended_);
    if (alarm_) timer().cancel(*alarm_);
  }

  void on_wake(std::function<void()> wake) {
    mailbox_->on_wake(wake);
    lane_.on_room(std::move(wake));
  }
  void on_more(std::function<bool()> more) { more_ = std::move(more); }
  void join_lanes(detail::lane_choice::lane& lane) {
    detail::timeline::of(lane_.stream())->set_group(&lane.choice());
    exchange_.join(lane);
    waiting_.on_change(lane);
    lane_of_actor_ = &lane;
    planning_.start();
  }
  [[nodiscard]] shared_plans plans_of_other_lanes() const noexcept { return exchange_.state(); }
  /// Returns the number for `end_bulk`.
  [[nodiscard]] std::uint64_t begin_bulk() noexcept {
    ++in_bulk_;
    return waiting_.last_number();
  }
  /// The requests of a sender since `begin_bulk`, which returned `number`, keep `bytes` of host
  /// memory together, as far as they wait.
  void end_bulk(request_sender sender, std::uint64_t number, std::size_t bytes) noexcept {
    const detail::no_room_wait_scope no_wait;
    --in_bulk_;
    waiting_.charge_later(sender, number, bytes);
    if (!waiting_.empty() && !gather()) launch_waiting();
  }
  void prepare(const launch_descriptor& descriptor) noexcept { plans_.prepare(descriptor); }

  [[nodiscard]] detail::owner_memory& memory() noexcept { return waiting_.memory(); }
  void submit(request_queue::pointer request) noexcept {
    const detail::no_room_wait_scope no_wait;
    if (gathering_ && in_bulk_ == 0 && ++gathered_ >= fullest_batch) {
      gathered_ = 0;
      launch_waiting();
    }
    auto& r = *request;
    const auto& device = lane_.runtime().device();
    auto refusal = device.lost() ? std::optional(device.loss()) : std::nullopt;
    // These cost next to nothing: `infer` may work out a long program. Under load, many requests
    // are too late, so their refusal is no exception.
    if (!refusal && is_late(r)) refusal = expired_;
    const auto bytes = r.bytes();
    if (!refusal) refusal = failure_of([&] { waiting_.require_room(r, bytes); });
    if (!refusal) refusal = r.infer();
    bool waits = false;
    if (!refusal) {
      refusal = failure_of([&] {
        waits = !admit(r, bytes);
        if (waits) wait(request);
      });
    }
    if (refusal) {
      r.fail(*refusal);
      // It makes no batch larger, so it keeps the others waiting no longer.
      if (gathering_ && in_bulk_ == 0 && !waiting_.empty()) {
        gathered_ = 0;
        launch_waiting();
      }
      return;
    }
    if (waits) return;
    launch(r);
    if (!waiting_.empty() && !gather()) launch_waiting();
  }

  void work() noexcept {
    const detail::no_room_wait_scope no_wait;
    gathering_ = false;
    for (auto job = mailbox_->take(); job != nullptr;) {
      auto next = std::exchange(job->next, nullptr);
      if (!plans_.retry(job)) accept(*job);
      job = std::move(next);
    }
    if (lane_.runtime().device().lost()) {
      fail(waiting_.take_all(), lane_.runtime().device().loss());
    } else {
      exchange_.learn();
      launch_waiting();
    }
  }

  void cancel(request_sender sender, std::uint64_t id) noexcept {
    if (id == 0 || !followed_.has(sender, id)) return;
    const detail::no_room_wait_scope no_wait;
    fail(waiting_.take_with_id(sender, id), cancelled_);
    followed_.cancel(sender, id, cancelled_);
    launch_waiting();
  }
  void sender_ended(request_sender sender) noexcept {
    const detail::no_room_wait_scope no_wait;
    fail(waiting_.take_ended(sender), sender_gone_);
    launch_waiting();
  }

  [[nodiscard]] queue_status status() noexcept {
    auto s = waiting_.status(timer().now());
    const auto& account = planning_.account();
    const auto captures = cache_.captures();
    s.plans = {.made = account.plan_count.load(std::memory_order_relaxed),
               .kept = cache_.size(),
               .kept_bytes = cache_.bytes(),
               // Acquire: the destruction of a plan that is not counted happens before.
               .alive = account.alive.load(std::memory_order_acquire),
               .alive_bytes = account.alive_bytes.load(std::memory_order_relaxed),
               .captured = captures.captured,
               .not_captured = captures.not_captured,
               .capture_attempts = account.improvements.load(std::memory_order_relaxed)};
    return s;
  }
  [[nodiscard]] sluice::lane& lane() noexcept { return lane_; }

 private:
  [[nodiscard]] device_kind kind() const noexcept { return lane_.runtime().device().id().kind; }
  [[nodiscard]] sluice::timer& timer() const noexcept { return lane_.service().timer(); }

  /// Checks an inferred request and finds its plan. Returns whether it can be launched at once.
  /// There was room for the request when it had `bytes`, before it was inferred.
  [[nodiscard]] bool admit(operation_request& r, std::size_t bytes) {
    const auto work = operations::check_request(r, lane_.runtime(), prices_, memory_.physical());
    if (const auto inferred = r.bytes(); inferred != bytes || r.shared()[0].identity != nullptr) {
      waiting_.require_room(r, inferred);
    }
    if (r.options.deadline || r.options.id != 0) follow(r);
    plans_.find(r);
    r.most_in_batch = most_in_batch(r, work);
    if (!waiting_.empty() || r.plan_job != nullptr || launching_) return false;
    if (lane_.full(commands_of(r))) return false;
    return r.most_in_batch == 0 ||
           (lane_.batches() < lane_.max_batches() && !more_follow() && !waits_for_company(r, 1));
  }
  /// The largest number of requests in a batch with `r`, which takes `work`; 0 if it must be
  /// launched alone.
  [[nodiscard]] std::size_t most_in_batch(const operation_request& r, double work) const noexcept {
    if (r.options.bits == result_bits::as_if_alone) return 0;
    const auto* const batches = r.descriptor.batches();
    auto limit = batches != nullptr ? batches->most_in_batch(r.call) : 0;
    const auto* const growth = r.plan ? r.plan->growth() : nullptr;
    if (growth != nullptr && !growth->may_take_batches()) return 0;
    // A host device computes the members one by one, so a batch is short: others wait for it.
    if (work * fullest_batch > most_host_work && kind() == device_kind::host) {
      limit = std::min(limit, static_cast<std::size_t>(most_host_work / work));
    }
    if (limit < 2) return 0;
    const auto alignment = batches->batch_alignment();
    std::size_t count = 0;
    for (const auto& u : r.uses()) {
      const auto address = reinterpret_cast<std::uintptr_t>(u.operand.value->value().address());
      if (u.packed || (!u.ignored && address % alignment != 0)) return 0;
      if (u.stated || (*u.operand.value && !u.ignored)) ++count;
    }
    return count > detail::joint_launches::max_uses ? 0 : limit;
  }
  [[nodiscard]] static bool share_batch(const operation_request& founder,
                                        const operation_request& r) noexcept {
    // Equal keys may have different plans, because a dropped one is made again.
    return r.most_in_batch != 0 && &r.descriptor == &founder.descriptor && r.plan == founder.plan &&
           founder.shares_batch(r);
  }

  /// Passes the outcome of a job on to the requests that wait for it.
  void accept(plan_job& job) noexcept {
    planning_.note_taken(job);
    if (job.grown_plan != nullptr) {
      exchange_.note_growth(plans_.adopt_batches(job));
      job.outcome.plan = job.grown_plan;
    } else {
      exchange_.share(job, plans_.keep(job));
    }
    job.owner.reset();  // it may own memory of a client, and others keep the job for a while
    const auto outcome = job.outcome;
    if (outcome.failure) {
      fail(waiting_.take_waiting_for(&job), *outcome.failure);
    } else {
      waiting_.give_plan(&job, outcome.plan);
    }
  }

  /// Whether the deadline of a request has come.
  [[nodiscard]] bool is_late(const operation_request& r) const noexcept {
    return r.options.deadline && *r.options.deadline <= timer().now();
  }
  /// Sees to the deadline and the id of a request.
  void follow(const operation_request& r) {
    if (is_late(r)) throw error(expired_);
    followed_.add(r.options, r.sender, r.token);
    set_alarm();
  }
  /// Has the owner woken at the first deadline.
  void set_alarm() {
    const auto first = followed_.first_deadline();
    if (!first || (alarm_ && alarm_->when <= *first)) return;
    const auto old_alarm = alarm_;
    alarm_ = timer().call_at(*first, [mailbox = mailbox_] { mailbox->wake(); });
    if (old_alarm) timer().cancel(*old_alarm);
  }
  /// Answers the requests whose deadline has come.
  void expire() noexcept {
    if (!alarm_) return;
    const auto now = timer().now();
    if (now < alarm_->when) return;
    fail(waiting_.take_expired(now), expired_);
    followed_.expire(now, expired_);
    alarm_.reset();
    try {
      set_alarm();
    } catch (...) {
      // Without memory the next call of `work` tries again.
      alarm_ = sluice::timer::ticket{now};
    }
  }

  /// Gives a request a place in the queue. Takes it only if nothing is thrown.
  /// @throws std::bad_alloc if there is no memory
  void wait(request_queue::pointer& request) {
    request->arrived = timer().now();
    waiting_.add(request);
    if (!gather()) launch_waiting();
  }
  /// Answers requests that were taken out before the first answer, because its receiver may submit
  /// another one.
  static void fail(const request_queue::list& requests, const error& why) noexcept {
    for (const auto& r : requests) r->fail(why);
  }

  /// Whether the owner has further requests at hand.
  [[nodiscard]] bool more_follow() const noexcept { return in_bulk_ != 0 || (more_ && more_()); }
  /// Whether what waits is launched after the requests that the owner has at hand.
  [[nodiscard]] bool gather() noexcept {
    if (waiting_.size() >= fullest_batch || !more_follow()) return false;
    if (in_bulk_ != 0) return true;
    if (!std::exchange(gathering_, true)) {
      gathered_ = 0;
      mailbox_->wake();
    }
    return true;
  }
  /// Launches what waits, as far as there is room.
  void launch_waiting() noexcept {
    if (launching_) return;
    expire();
    while (!waiting_.empty()) {
      if (lane_.full() && lane_.want_room()) return;  // woken later
      // Without company to wait for, a chain of requests is launched like any other.
      const bool batches = waiting_.holds_back() || lane_.batches() < lane_.max_batches() ||
                           !lane_.want_room_for_batch(lane_.max_batches());
      const auto next = waiting_.next(batches);
      if (next && waits_for_company(next)) break;
      if (!next) {
        // Requests with plans wait behind those that wait for room for a batch. Others would get
        // theirs long before their launch. The owner is woken once there is room.
        if (!batches && waiting_.planned() >= max_planned) return;
        break;
      }
      if ((*next).most_in_batch != 0) {
        plans_.grow(*next, [&](std::size_t n) { return waiting_.count(next, n, share_batch); });
      }
      const auto commands = commands_of(*next);
      if (lane_.full(commands) && lane_.want_room(commands)) return;
      if ((*next).most_in_batch != 0) {
        const auto waiting =
            is_long_run(*next) ? waiting_.count(next, fullest_batch, share_batch) : 0;
        const auto size = batch_size(next, waiting);
        // A batch that has no room now takes less time than its requests one by one.
        if (size == 0 && lane_.want_room(commands_of_batch(*next, 2))) return;
        launch_batch(waiting_.take_batch(next, std::max<std::size_t>(size, 1), share_batch),
                     waiting);
      } else {
        launch_alone(waiting_.take(next));
      }
    }
    planning_.start();
  }

  /// Whether a request runs a long program of whose runs there are batches on a GPU; see
  /// `batch_company`. Such requests come to one lane of the actor.
  [[nodiscard]] static bool is_long_run(const operation_request& r) noexcept {
    if (r.most_in_batch == 0 || !r.plan) return false;
    const auto* const growth = r.plan->growth();
    return growth != nullptr && growth->size() > 1 && r.plan->commands() >= least_of_long;
  }
  /// The requests like `r` in the batch in flight, if that is one, that have not been answered.
  [[nodiscard]] std::size_t in_flight_with(const operation_request& r) const noexcept {
    if (lane_.batches() == 0) return 0;
    return std::min(company_.last_size(*r.plan), lane_.in_flight());
  }
  /// Whether `r`, with `waiting` requests like it in all, waits for company.
  [[nodiscard]] bool waits_for_company(const operation_request& r,
                                       std::size_t waiting) const noexcept {
    if (!is_long_run(r)) return false;
    const auto in_flight = in_flight_with(r);
    return in_flight != 0 && company_.expects_more(*r.plan, in_flight + waiting);
  }
  /// Likewise; then the owner is woken when the batch in flight ends. No request does while one of
  /// another kind waits.
  [[nodiscard]] bool waits_for_company(const request_queue::place& next) noexcept {
    const auto waiting = waiting_.size();
    if (waiting_.holds_back() || !waits_for_company(*next, waiting)) return false;
    return waiting_.count(next, waiting, share_batch) == waiting && lane_.want_room_for_batch(1);
  }
  /// A batch of `size` of the `waiting` requests like `r` is launched.
  void note_launch(const operation_request& r, std::size_t size, std::size_t waiting) noexcept {
    if (r.most_in_batch == 0) return;
    if (!is_long_run(r)) return company_.note_other_launch();
    company_.note_launch(*r.plan, size, waiting, in_flight_with(r));
    if (lane_of_actor_ != nullptr && r.transfer_commands() == 0) {
      lane_of_actor_->note_home(r.shared()[0].identity);
    }
  }

  /// The most device commands of a launch, without those of packed copies and single transfers.
  [[nodiscard]] static std::size_t commands_of(const operation_request& r) noexcept {
    return r.descriptor.facts(r.call).commands + (r.plan ? r.plan->commands() : 0) +
           r.transfer_commands();
  }
  /// The most device commands of a batch of up to `count` requests like `r`.
  [[nodiscard]] static std::size_t commands_of_batch(const operation_request& r,
                                                     std::size_t count) noexcept {
    return r.descriptor.facts(r.call).commands + (r.plan ? r.plan->batch_commands(count) : 0) +
           count * r.transfer_commands();
  }
  /// The number of requests like `next` for whose device commands there is room; at least one piece
  /// of a batch if the lane is idle, as it takes any launch. 0: there is room for one request, and
  /// others wait that could be launched with it. Of runs of a long program, one piece, of which
  /// `waiting` requests wait.
  [[nodiscard]] std::size_t batch_size(const request_queue::place& next,
                                       std::size_t waiting) const noexcept {
    const auto& r = *next;
    auto limit = r.most_in_batch;
    const auto* const growth = r.plan ? r.plan->growth() : nullptr;
    if (growth != nullptr && growth->size() == 1) return 1;
    const auto room = lane_.room_for_commands();
    if (growth == nullptr) {
      while (limit > 1 && commands_of_batch(r, limit) > room) limit = (limit + 1) / 2;
      return limit;
    }
    limit = std::min(limit, growth->size());
    if (waiting != 0) {
      limit =
          std::min({limit, waiting, company_.largest_batch(*r.plan, waiting, in_flight_with(r))});
    } else {
      if (commands_of_batch(r, r.most_in_batch) <= room) return r.most_in_batch;
      limit = waiting_.count(next, limit, share_batch);
    }
    if (limit < 2) return 1;
    // One piece of any size takes as many commands as that of two requests.
    if (lane_.in_flight() != 0 && commands_of_batch(r, 2) > room) return 0;
    const bool is_piece = 4 * limit >= 3 * std::bit_ceil(limit);
    return is_piece ? limit : std::bit_floor(limit);
  }
  /// Launches a request that has been taken from the queue, or lets it wait for what batches of its
  /// plan need.
  void launch_alone(request_queue::pointer request) noexcept {
    const auto failure = failure_of([&] {
      if (plans_.request_batches(*request)) waiting_.add(request);
    });
    if (failure) {
      request->fail(*failure);
    } else if (request) {
      launch(*request);
    }
  }
  void launch(operation_request& r) noexcept {
    const bool was_launching = std::exchange(launching_, true);
    note_launch(r, 1, 1);
    launcher_.launch(r);
    launching_ = was_launching;
    note_shortage();
  }
  /// Launches requests together, at least one. Of runs of a long program, `waiting` have waited.
  void launch_batch(request_queue::list requests, std::size_t waiting) noexcept {
    launching_ = true;
    note_launch(*requests.front(), requests.size(), waiting);
    launcher_.launch_together(requests);
    launching_ = false;
    note_shortage();
  }
  /// A lane on demand without memory for a launch is closed: the other lanes have their memory.
  void note_shortage() noexcept {
    if (memory_.take_shortage() && exchange_.note_shortage()) mailbox_->wake();
  }
  static constexpr std::size_t fullest_batch = 128;
  static constexpr double most_host_work = 2'000'000;  // of a batch: about 2 ms
  static constexpr std::size_t max_planned = 64;       // that wait when the next plans are made
  static constexpr std::size_t least_of_long = 32;     // device commands of a long run

  // Made in advance, because answering must not throw.
  const error ended_{errc::cancelled, "the executor has ended"};
  const error cancelled_{errc::cancelled, "the sender cancelled the request"};
  const error sender_gone_{errc::cancelled, "the sender of the request has ended"};
  const error expired_{errc::deadline_exceeded, "the deadline of the request has passed"};

  sluice::lane lane_;
  std::shared_ptr<lane_libraries> libraries_;
  plan_cache cache_;
  memory_with_plans memory_;
  std::shared_ptr<owner_mailbox> mailbox_ = std::make_shared<owner_mailbox>();
  const operations::price_limits prices_;
  planning planning_;
  request_plans plans_;
  request_launcher launcher_;
  followed_requests followed_;
  std::optional<sluice::timer::ticket> alarm_;  // when the timer wakes the owner
  request_queue waiting_;
  plan_exchange exchange_;
  detail::lane_choice::lane* lane_of_actor_ = nullptr;  // null: there are no other lanes
  operations::batch_company company_;
  // The receiver of an answer may submit a request meanwhile. It waits, because it may have a
  // hazard with those that are on their way, and calls must not nest without a bound.
  bool launching_ = false;
  std::function<bool()> more_;  // null: the owner never has a request at hand
  bool gathering_ = false;      // the owner is woken after the requests at hand
  std::size_t gathered_ = 0;    // requests since then, with the weight of those refused
  std::size_t in_bulk_ = 0;     // a receiver may submit one within another
};

executor::executor(std::shared_ptr<device_service> service, std::shared_ptr<kernel_trace> trace,
                   executor_options options)
    : core_(std::make_unique<core>(std::move(service), std::move(trace), options)) {}
executor::~executor() = default;

void executor::on_wake(std::function<void()> wake) {
  core_->on_wake(std::move(wake));
}
void executor::on_more(std::function<bool()> more) {
  core_->on_more(std::move(more));
}
void executor::join_lanes(detail::lane_choice::lane& lane) {
  core_->join_lanes(lane);
}
executor::shared_plans executor::plans_of_other_lanes() const noexcept {
  return core_->plans_of_other_lanes();
}
void executor::prepare(const operation_descriptor& descriptor) noexcept {
  core_->prepare(descriptor);
}
executor::gathering::gathering(executor& executor, request_sender sender,
                               std::size_t shared_bytes) noexcept
    : executor_(executor),
      sender_(sender),
      last_number_(executor.core_->begin_bulk()),
      shared_bytes_(shared_bytes) {}
executor::gathering::~gathering() {
  executor_.core_->end_bulk(sender_, last_number_, shared_bytes_);
}
detail::owner_memory& executor::memory() noexcept {
  return core_->memory();
}
void executor::submit_operation(const operation_descriptor& descriptor, void* operation,
                                const request_options& options, void* token,
                                request_sender sender) noexcept {
  try {
    request_options settings = options;
    submit(descriptor.make_request(memory(), operation, std::move(settings), sender, token));
  } catch (...) {
    descriptor.refuse(operation, token, current_error());
  }
}
void executor::submit(detail::owner_pointer<detail::operation_request> request) noexcept {
  core_->submit(std::move(request));
}
void executor::work() noexcept {
  core_->work();
}
void executor::cancel(request_sender sender, std::uint64_t id) noexcept {
  core_->cancel(sender, id);
}
void executor::sender_ended(request_sender sender) noexcept {
  core_->sender_ended(sender);
}
queue_status executor::status() const noexcept {
  return core_->status();
}
sluice::lane& executor::lane() noexcept {
  return core_->lane();
}

}  // namespace sluice
