// SPDX-License-Identifier: Apache-2.0
#include "service/front/sequence_dispatch.hpp"

#include "service/protocol/quoted_name.hpp"

#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] run_result failure(request_status status, const std::string& text) {
  return {.error = request_error(status, text)};
}

/// The failure of the exception that is being handled.
[[nodiscard]] run_result current_failure() {
  try {
    throw;
  } catch (const request_error& e) {
    return {.error = e};
  } catch (const std::bad_alloc&) {
    return failure(request_status::unavailable, "the server is out of memory");
  } catch (const std::exception& e) {
    return failure(request_status::internal, e.what());
  }
}

[[nodiscard]] run_result closed_failure() {
  return failure(request_status::unavailable, "the service ends");
}

[[nodiscard]] request_error lost_sequence(const std::string& id) {
  return {request_status::aborted, "sequence lost or not begun: " + quoted_name(id)};
}

/// Whether the version with which a sequence began is not served any more.
[[nodiscard]] bool is_gone(const run_result& result) noexcept {
  if (!result.error) return false;
  const auto status = result.error->status();
  return status == request_status::not_found || status == request_status::aborted;
}

}  // namespace

sequence_dispatch::sequence_dispatch(model_backend& backend, sequence_limits limits,
                                     std::function<time_point()> now)
    : backend_(backend), now_(std::move(now)), table_(limits) {}

state_descriptor sequence_dispatch::describe_state(const run_request& run) const {
  auto state = backend_.state_of(run.model, run.version);
  if (!state.tensors.empty()) return state;
  throw request_error(request_status::invalid_argument, "sequence_id: the config of the model " +
                                                            quoted_name(run.model) +
                                                            " names no state (sequence_batching)");
}

bool sequence_dispatch::admit(const std::shared_ptr<sequence_request>& request) {
  const auto& run = request->run;
  if (request->starts) {
    sequence_state state(describe_state(run));
    state.check(run);
    const std::lock_guard lock(mutex_);
    table_.expire(now_());
    table_.begin(request, std::move(state));
    return true;
  }
  {
    const std::lock_guard lock(mutex_);
    table_.expire(now_());
    if (const auto runs = table_.add(request)) return *runs;
  }
  (void)describe_state(run);
  throw lost_sequence(run.sequence->id);
}

void sequence_dispatch::submit(const std::shared_ptr<sequence_request>& request) {
  try {
    if (!admit(request)) return;
  } catch (...) {
    return request->done(current_failure());
  }
  dispatch(request);
}

void sequence_dispatch::dispatch(std::shared_ptr<sequence_request> request) {
  while (request) {
    pass_on(request);
    const bool is_second = request->is_half_done.exchange(true, std::memory_order_acq_rel);
    request = is_second ? std::move(request->next) : nullptr;
  }
}

void sequence_dispatch::pass_on(const std::shared_ptr<sequence_request>& request) {
  const bool is_closed = [this] {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) ++calls_;
    return is_closed_;
  }();
  if (is_closed) return complete(request, closed_failure());
  try {
    auto& run = request->run;
    auto inputs = request->sequence->state.add_to(run, *request->inputs, backend_);
    request->inputs.reset();
    const auto number = backend_.submit(std::move(run), std::move(inputs),
                                        [self = shared_from_this(), request](run_result result) {
                                          self->complete(request, std::move(result));
                                        });
    const bool is_cancelled = [&] {
      const std::lock_guard lock(mutex_);
      request->backend_number = number;
      return request->is_cancelled;
    }();
    if (is_cancelled) backend_.cancel(number);
  } catch (...) {
    complete(request, current_failure());
  }
  const std::lock_guard lock(mutex_);
  if (--calls_ == 0) idle_.notify_all();
}

void sequence_dispatch::complete(const std::shared_ptr<sequence_request>& request,
                                 run_result result) {
  finish(*request, std::move(result));
  if (request->is_half_done.exchange(true, std::memory_order_acq_rel)) {
    dispatch(std::move(request->next));
  }
}

void sequence_dispatch::finish(sequence_request& request, run_result result) {
  if (!result.error) {
    try {
      request.sequence->state.take_from(result, request.outputs);
    } catch (...) {
      result = current_failure();
    }
  }
  const auto& id = request.sequence->key.id;
  bool keeps = result.error ? !request.starts : !request.ends;
  if (!request.starts && is_gone(result)) {
    keeps = false;
    result = failure(request_status::aborted,
                     "sequence lost: " + quoted_name(id) + ": " + result.error->what());
  }
  auto then = [&] {
    const std::lock_guard lock(mutex_);
    return table_.finish(request, keeps, now_());
  }();
  request.next = std::move(then.next);
  // After the change of the table: the client may send the next request at once.
  request.done(std::move(result));
  for (const auto& each : then.lost) each->done({.error = lost_sequence(id)});
}

void sequence_dispatch::cancel(model_backend::number number) noexcept {
  std::shared_ptr<sequence_request> waiting;
  std::optional<model_backend::number> backend_number;
  {
    const std::lock_guard lock(mutex_);
    const auto request = table_.find(number);
    if (!request) return;
    if (request->is_waiting) {
      table_.remove_waiting(*request);
      waiting = request;
    } else {
      request->is_cancelled = true;
      backend_number = request->backend_number;
    }
  }
  if (waiting) waiting->done(failure(request_status::cancelled, "the request was cancelled"));
  if (backend_number) backend_.cancel(*backend_number);
}

void sequence_dispatch::expire() {
  const auto late = [this] {
    const std::lock_guard lock(mutex_);
    const auto now = now_();
    table_.expire(now);
    return table_.take_waiting(now);
  }();
  for (const auto& each : late) {
    each->done(failure(request_status::deadline_exceeded,
                       "the deadline passed before the result was there"));
  }
}

sequence_statistics sequence_dispatch::statistics() const {
  const std::lock_guard lock(mutex_);
  return table_.statistics();
}

void sequence_dispatch::close() {
  const auto waiting = [this] {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    return table_.take_waiting(std::nullopt);
  }();
  for (const auto& each : waiting) each->done(closed_failure());
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return calls_ == 0; });
}

}  // namespace sluice::service
