// SPDX-License-Identifier: Apache-2.0
// The part of worker_supervisor that answers requests whose worker cannot.
#include "service/front/worker_supervisor.hpp"

#include <exception>
#include <optional>
#include <utility>

namespace sluice::service {

void worker_supervisor::retry_orphans() {
  auto orphans = std::exchange(orphans_, {});
  for (auto& each : orphans) {
    if (!try_again(each)) orphans_.push_back(std::move(each));
  }
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

bool worker_supervisor::try_again(orphan& each) {
  // It stays there meanwhile, so that it can be cancelled.
  const auto run = pending_.find(each.number);
  std::optional<request_error> failure;
  if (run && run->done) {
    const std::lock_guard lock(mutex_);
    failure = refusal_of(each, *run);
    if (!failure && !choose(run->message.model)) return false;
    try {
      if (!failure) {
        send(each.number, run->message, run->worker, each.region,
             [&](std::shared_ptr<worker_link> worker) {
               pending_.assign(each.number, std::move(worker));
             });
        pending_.count_attempt(each.number);
        return true;
      }
    } catch (const request_error& e) {
      if (e.status() == request_status::resource_exhausted) return false;
      failure = e;
    } catch (const std::exception& e) {
      failure = request_error(request_status::internal, e.what());
    }
  }
  const auto ended = pending_.take(each.number);
  if (ended && ended->done) ended->done({.error = failure});
  return true;
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
  fail_loads();
  for (auto& run : pending_.take_all()) {
    if (run.done) {
      run.done({.error = request_error(request_status::unavailable, "the service ends")});
    }
  }
}

}  // namespace sluice::service
