// SPDX-License-Identifier: Apache-2.0
// The part of worker_supervisor that answers requests whose worker cannot.
#include "service/base/log.hpp"
#include "service/front/worker_supervisor.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

constexpr std::chrono::seconds longest_trial{1};
constexpr std::chrono::seconds trials_time{5};  // for the requests of a dead worker

}  // namespace

void worker_supervisor::retry_orphans() {
  if (trial_ && !has_ended(*trial_)) return;
  if (trial_) end_trial();
  if (orphans_.empty()) {
    trials_end_.reset();
    return;
  }
  const auto now = clock::now();
  if (!trials_end_ || now < *trials_end_) {
    if (now >= next_trial_) begin_trial();
    return;
  }
  // The others run together, and their worker serves everybody.
  auto orphans = std::exchange(orphans_, {});
  for (auto& each : orphans) {
    if (try_again(each, nullptr) == attempt::waits) orphans_.push_back(std::move(each));
  }
}

void worker_supervisor::begin_trial() {
  const auto now = clock::now();
  for (auto each = orphans_.begin(); each != orphans_.end();) {
    const auto run = pending_.find(each->number);
    const auto failure = [&]() -> std::optional<request_error> {
      const std::lock_guard lock(mutex_);
      if (!run) return no_worker();
      auto refusal = refusal_of(*each, *run);
      if (refusal) return refusal;
      if (const auto worker = choose(run->message.model)) {
        worker->is_in_trial = true;
        trial_.emplace(trial{.request = std::move(*each), .worker = worker, .begin = now});
      }
      return std::nullopt;
    }();
    if (failure) answer(each->number, *failure);
    if (failure || trial_) each = orphans_.erase(each);
    if (trial_) break;
    if (!failure) ++each;
  }
  if (trial_ && !trials_end_) trials_end_ = now + trials_time;
}

bool worker_supervisor::has_ended(trial& isolation) {
  const auto is_late = clock::now() - isolation.begin >= longest_trial;
  if (isolation.is_sent) return is_late || !pending_.worker_of(isolation.request.number);
  isolation.is_alone = isolation.worker->runs_in_flight == 0;
  if (!isolation.is_alone && !is_late) return false;
  switch (try_again(isolation.request, isolation.worker)) {
    case attempt::waits:
      orphans_.push_front(std::move(isolation.request));
      return true;
    case attempt::sent:
      isolation.is_sent = true;
      return false;
    case attempt::answered:
      break;
  }
  return true;
}

void worker_supervisor::end_trial() {
  const auto now = clock::now();
  // The requests of others get as much time.
  next_trial_ = now + (now - trial_->begin);
  {
    const std::lock_guard lock(mutex_);
    trial_->worker->is_in_trial = false;
  }
  trial_.reset();
}

void worker_supervisor::quarantine(const worker_run& run) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    quarantine_.add(run.message, clock::now());
  } catch (const std::bad_alloc&) {
    return;  // The other requests of the worker still need their answers.
  }
  write_log(log_level::error, "requests are quarantined: one has ended two workers",
            {{"model", run.content->model},
             {"version", static_cast<std::int64_t>(run.content->version)}});
}

void worker_supervisor::end_trial_by_death(const std::vector<pending_request>& requests,
                                           bool has_failed) {
  auto& request = trial_->request;
  const bool is_cause = has_failed && trial_->is_alone &&
                        std::any_of(requests.begin(), requests.end(), [&](const auto& each) {
                          return each.number == request.number;
                        });
  if (!trial_->is_sent) {
    orphans_.push_front(std::move(request));
  } else if (const auto run = is_cause ? pending_.find(request.number) : std::nullopt) {
    quarantine(*run);
  }
  end_trial();
}

std::optional<request_error> worker_supervisor::refusal_of(const orphan& each,
                                                           const worker_run& run) const {
  if (run.attempts >= most_deaths) {
    return request_error(request_status::unavailable,
                         "worker processes have ended while they ran the request");
  }
  if (!catalog_.wants(run.content->handle)) {
    return request_error(request_status::unavailable, "the model is not served any more");
  }
  if (clock::now() >= each.end) return no_worker();
  return std::nullopt;
}

worker_supervisor::attempt worker_supervisor::try_again(
    orphan& each, const std::shared_ptr<worker_link>& target) {
  std::optional<request_error> failure;
  try {
    // It stays there meanwhile, so that it can be cancelled.
    auto run = pending_.find(each.number);
    if (!run) return attempt::answered;
    if (!run->done && !target) {
      (void)pending_.take(each.number);
      return attempt::answered;
    }
    const std::lock_guard lock(mutex_);
    failure = refusal_of(each, *run);
    if (!failure) {
      const auto worker = target ? target : choose(run->message.model);
      if (!worker || !worker->is_open || (!target && worker->is_in_trial)) return attempt::waits;
      send(each.number, run->message, run->worker, each.region, worker,
           [&] { pending_.assign(each.number, worker); });
      pending_.count_attempt(each.number);
      return attempt::sent;
    }
  } catch (const request_error& e) {
    if (e.status() == request_status::resource_exhausted) return attempt::waits;
    failure = e;
  } catch (const std::exception& e) {
    failure = request_error(request_status::internal, e.what());
  }
  answer(each.number, *failure);
  return attempt::answered;
}

void worker_supervisor::answer(std::uint64_t number, const request_error& failure) {
  auto run = pending_.take(number);
  if (!run || !run->done) return;
  run->charge.reset();
  run->done({.error = failure});
}

void worker_supervisor::send_held() {
  auto held = [this] {
    const std::lock_guard lock(mutex_);
    return std::exchange(held_, {});
  }();
  std::erase_if(held, [this](orphan& each) { return try_again(each, nullptr) != attempt::waits; });
  if (held.empty()) return;
  const std::lock_guard lock(mutex_);
  held.insert(held.end(), std::move_iterator(held_.begin()), std::move_iterator(held_.end()));
  held_ = std::move(held);
}

bool worker_supervisor::has_held() const {
  const std::lock_guard lock(mutex_);
  return !held_.empty();
}

void worker_supervisor::give_up_on(worker_link& worker) {
  for (auto& done : pending_.take_answers_of(worker)) {
    done({.error = request_error(request_status::unavailable,
                                 "the worker process of the request does not end")});
  }
}

void worker_supervisor::answer_expired() {
  for (auto& [number, done] : pending_.take_expired(clock::now())) {
    cancel(number);
    done({.error = request_error(request_status::deadline_exceeded,
                                 "the deadline passed before the result was there")});
  }
}

void worker_supervisor::fail_all() {
  std::vector<std::shared_ptr<worker_link>> workers;
  {
    const std::lock_guard lock(mutex_);
    for (auto& place : places_) {
      if (place.worker) place.worker->is_open = false;
      workers.push_back(std::exchange(place.worker, nullptr));
    }
  }
  trial_.reset();
  fail_loads();
  for (auto& run : pending_.take_all()) {
    if (run.done) {
      run.done({.error = request_error(request_status::unavailable, "the service ends")});
    }
  }
}

}  // namespace sluice::service
