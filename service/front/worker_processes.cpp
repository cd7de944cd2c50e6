// SPDX-License-Identifier: Apache-2.0
// The part of worker_supervisor that starts, watches and ends processes.
#include "service/base/log.hpp"
#include "service/front/reply_watch.hpp"
#include "service/front/worker_supervisor.hpp"

#include <algorithm>
#include <exception>
#include <poll.h>
#include <set>
#include <stdexcept>
#include <utility>

namespace sluice::service {
namespace {

constexpr std::chrono::milliseconds orphan_interval{20};
constexpr std::chrono::milliseconds trial_interval{1};
constexpr std::chrono::milliseconds look_interval{10};  // at processes and control sockets
constexpr std::chrono::seconds stable_time{60};         // a worker that lives longer restarts soon
constexpr std::chrono::seconds closing_time{5};         // of a worker that ends by itself
constexpr std::chrono::seconds check_interval{2};       // between checks of a worker
constexpr std::chrono::seconds longest_opening{60};     // of a device, at least
constexpr std::chrono::seconds longest_check{10};       // of a worker that counts as well

/// Whether an operator, or a program such as a supervisor, has killed the worker: neither the front
/// because of a fault or a hang, nor the kernel because memory was short.
[[nodiscard]] bool was_ended_by_others(const worker_link& worker) noexcept {
  return worker.process.was_killed() && !worker.is_faulty &&
         count_oom_kills() == worker.oom_kills_at_start;
}

}  // namespace

void worker_supervisor::run() noexcept {
  while (!is_closing_) {
    try {
      if (!work()) sleep();
    } catch (const std::exception& e) {
      write_log(log_level::error, "the supervisor failed", {{"problem", e.what()}});
    }
  }
  fail_all();
}

bool worker_supervisor::work() {
  bool has_worked = false;
  if (wake_.take()) {
    auto orders = [this] {
      const std::lock_guard lock(mutex_);
      return std::exchange(loop_orders_, {});
    }();
    for (auto& each : orders) obey(std::move(each));
    take_model_requests();
    for (const auto& news : repository_.take()) apply(news);
  }
  const auto now = clock::now();
  const bool looks_at_processes = now >= next_look_;
  if (looks_at_processes) next_look_ = now + look_interval;
  for (auto& place : places_) {
    if (!place.worker) {
      if (place.restart <= now) start(place);
      continue;
    }
    const auto worker = place.worker;
    if (const auto how = looks_at_processes ? worker->process.reap() : std::nullopt) {
      write_log(log_level::warning, "worker ended",
                {{"worker", worker->process.id()}, {"how", *how}});
      end(place);
      continue;
    }
    if (worker->killed && now - *worker->killed > closing_time) give_up_on(*worker);
    try {
      if (worker->has_fault) throw arena_fault("it has damaged its memory");
      if (looks_at_processes && take_messages(worker)) has_worked = true;
      if (looks_at_processes && !worker->is_faulty && !worker->closed) check(*worker);
      if (!worker->watch && !worker->is_faulty && receiver_.receive(*worker)) has_worked = true;
    } catch (const std::exception& e) {
      kill(*worker, e.what());
    }
  }
  answer_expired();
  answer_loads();
  retry_orphans();
  send_held();
  return has_worked;
}

void worker_supervisor::kill(worker_link& worker, const char* reason) noexcept {
  if (worker.is_faulty) return;
  write_log(log_level::error, "worker is killed",
            {{"worker", worker.process.id()}, {"problem", reason}});
  worker.process.kill();
  worker.is_faulty = true;
  worker.killed = clock::now();
  // A driver can keep the process for long. Meanwhile it gets no requests.
  const std::lock_guard lock(mutex_);
  worker.is_open = false;
}

void worker_supervisor::end_closed(worker_link& worker) noexcept {
  const auto now = clock::now();
  if (!worker.closed) {
    worker.closed = now;
    const std::lock_guard lock(mutex_);
    worker.is_open = false;
  } else if (now - *worker.closed > closing_time) {
    kill(worker, "it has closed its control socket and does not end");
  }
}

void worker_supervisor::start(worker_place& place) {
  const auto now = clock::now();
  place.restart = now + place.wait;
  place.wait = std::min<clock::duration>(2 * place.wait, options_.last_restart);
  auto worker = std::make_shared<worker_link>(
      place.program,
      arena_sizes{.request_bytes = options_.request_bytes, .reply_bytes = options_.reply_bytes});
  worker->start = now;
  worker->device = place.program.device;
  {
    const std::lock_guard lock(mutex_);
    place.worker = std::move(worker);
    ++place.starts;
  }
  watch_replies(place);
}

std::shared_ptr<void> worker_supervisor::receive_on(std::vector<boost::asio::io_context*> loops) {
  order(std::move(loops));
  return {this, [](worker_supervisor* self) {
            self->order({});
          }};
}

void worker_supervisor::order(std::vector<boost::asio::io_context*> loops) {
  loop_order order{.loops = std::move(loops)};
  const auto done = order.done.get_future();
  {
    const std::lock_guard lock(mutex_);
    loop_orders_.push_back(std::move(order));
  }
  wake_.signal();
  done.wait();
}

void worker_supervisor::obey(loop_order&& order) {
  for (auto& place : places_) {
    if (!place.worker) continue;
    if (const auto watch = std::exchange(place.worker->watch, nullptr)) watch->stop();
  }
  loops_ = std::move(order.loops);
  for (auto& place : places_) watch_replies(place);
  order.done.set_value();
}

void worker_supervisor::watch_replies(worker_place& place) {
  if (loops_.empty() || !place.worker) return;
  const auto number = static_cast<std::size_t>(&place - places_.data());
  try {
    const auto watch = std::make_shared<reply_watch>(*loops_[number % loops_.size()], place.worker,
                                                     receiver_, wake_);
    watch->start();
    place.worker->watch = watch;
  } catch (const std::exception& e) {
    // The supervisor receives its replies.
    write_log(log_level::warning, "replies of a worker are received by the supervisor",
              {{"worker", place.worker->process.id()}, {"problem", e.what()}});
  }
}

void worker_supervisor::check(worker_link& worker) {
  const auto now = clock::now();
  if (!worker.is_open) {
    if (now - worker.start > std::max<clock::duration>(options_.hang_timeout, longest_opening)) {
      throw std::runtime_error("it has not opened its device");
    }
    return;
  }
  if (!worker.check_is_due) {
    if (now - worker.last_check < check_interval) return;
    worker.last_check = now;
    worker.check_is_due = true;
    if (!worker.control.send({{"check", ++worker.checks}})) {
      throw std::runtime_error("it reads no orders");
    }
    return;
  }
  const auto elapsed = now - worker.last_check;
  if (elapsed > options_.hang_timeout) {
    throw std::runtime_error("its device or the process has hung");
  }
  if (elapsed > longest_check && worker.is_well) {
    write_log(log_level::warning, "worker has not computed",
              {{"worker", worker.process.id()}, {"seconds", longest_check.count()}});
    worker.is_well = false;
  }
}

void worker_supervisor::note_check(worker_link& worker, std::uint64_t number) {
  if (number != worker.checks) throw std::runtime_error("it has answered another check");
  worker.check_is_due = false;
  if (!worker.is_well.exchange(true)) {
    write_log(log_level::info, "worker computes again", {{"worker", worker.process.id()}});
  }
}

void worker_supervisor::end(worker_place& place) {
  const auto worker = place.worker;
  if (const auto watch = std::exchange(worker->watch, nullptr)) watch->stop();
  try {
    // The replies that the worker sent before its end.
    while (receiver_.receive(*worker)) {
    }
  } catch (const std::exception&) {
    worker->is_faulty = true;
  }
  std::vector<pending_request> requests;
  {
    const std::lock_guard lock(mutex_);
    worker->is_open = false;
    place.worker = nullptr;
    requests = worker->channel.take_pending();
  }
  const auto now = clock::now();
  if (now - worker->start > stable_time) place.wait = options_.first_restart;
  place.restart = std::max(place.restart, now);
  if (trial_ && trial_->worker == worker)
    end_trial_by_death(requests, !was_ended_by_others(*worker));
  std::sort(requests.begin(), requests.end(),
            [](const auto& left, const auto& right) { return left.number < right.number; });
  for (auto& request : requests) {
    orphans_.push_back(
        {.number = request.number, .region = std::move(request.region), .end = now + longest_wait});
  }
  if (!worker->loads.empty()) {
    // A worker loads one model after the other.
    const auto handle = worker->loads.front();
    const bool is_loaded_elsewhere = [&] {
      const std::lock_guard lock(mutex_);
      return choose(handle) != nullptr;
    }();
    if (!is_loaded_elsewhere && ++deaths_[handle] == most_deaths) {
      refuse(handle, "worker processes have ended while they loaded it");
    }
  }
  serve_loaded();
}

void worker_supervisor::sleep() {
  std::vector<pollfd> events{{wake_.descriptor(), POLLIN, 0}};
  std::vector<std::shared_ptr<worker_link>> asleep;
  std::set<int> process_descriptors;  // and control sockets
  auto wake_up = clock::now() + std::chrono::seconds(1);
  // Before the first deadline is read: a thread that adds an earlier one sees this.
  wake_up_ = wake_up.time_since_epoch().count();
  bool may_sleep = true;
  for (const auto& place : places_) {
    const auto& worker = place.worker;
    if (!worker) {
      wake_up = std::min(wake_up, place.restart);
      continue;
    }
    process_descriptors.insert({worker->process.end_descriptor(), worker->control.descriptor()});
    events.push_back({worker->process.end_descriptor(), POLLIN, 0});
    if (worker->is_faulty) continue;
    if (!worker->closed) events.push_back({worker->control.descriptor(), POLLIN, 0});
    if (worker->watch) continue;
    if (!worker->channel.begin_sleep()) {
      may_sleep = false;
      continue;
    }
    asleep.push_back(worker);
    events.push_back({worker->channel.front_wake_descriptor(), POLLIN, 0});
  }
  if (const auto deadline = pending_.first_deadline()) wake_up = std::min(wake_up, *deadline);
  for (const auto& load : loads_) {
    if (load.done) wake_up = std::min(wake_up, load.end);
  }
  if (trials_end_ && clock::now() < *trials_end_) {
    wake_up = std::min<clock::time_point>(wake_up, clock::now() + trial_interval);
  } else if (!orphans_.empty() || has_held()) {
    wake_up = std::min<clock::time_point>(wake_up, clock::now() + orphan_interval);
  }
  if (may_sleep) {
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(wake_up - clock::now()).count();
    (void)::poll(events.data(), events.size(), static_cast<int>(std::max<std::int64_t>(wait, 0)));
  }
  wake_up_ = 0;
  for (const auto& worker : asleep) worker->channel.end_sleep();
  if ((events.front().revents & POLLIN) != 0) wake_.clear();
  for (const auto& event : events) {
    if (event.revents != 0 && process_descriptors.contains(event.fd)) next_look_ = {};
  }
}

}  // namespace sluice::service
