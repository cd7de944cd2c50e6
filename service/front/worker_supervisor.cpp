// SPDX-License-Identifier: Apache-2.0
#include "service/front/worker_supervisor.hpp"

#include "service/front/counted_answer.hpp"
#include "service/front/traced_answer.hpp"
#include "service/metrics/metric_value.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <tuple>
#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] std::uint32_t number_of(const std::unordered_map<std::string, std::uint32_t>& numbers,
                                      const std::string& name, const char* kind) {
  const auto found = numbers.find(name);
  if (found != numbers.end()) return found->second;
  throw request_error(request_status::invalid_argument,
                      "the model has no " + std::string(kind) + " \"" + name + "\"");
}

[[nodiscard]] std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const auto extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

/// Checks the shape of an input against that of the metadata, where -1 stands for any extent.
void check_shape(const run_tensor& input, const std::vector<std::int64_t>& declared) {
  if (std::equal(input.shape.begin(), input.shape.end(), declared.begin(), declared.end(),
                 [](auto extent, auto expected) { return expected == -1 || extent == expected; })) {
    return;
  }
  throw request_error(request_status::invalid_argument, input.name + ": has the shape " +
                                                            text_of(input.shape) +
                                                            ", but must have " + text_of(declared));
}

/// Refuses a request that neither belongs to a sequence nor provides the state of the model.
void check_state(const run_request& request, const model_config& config) {
  if (request.sequence || !config.sequences) return;
  for (const auto& state : config.sequences->state) {
    const bool is_provided =
        std::any_of(request.inputs.begin(), request.inputs.end(),
                    [&](const auto& input) { return input.name == state.input; });
    if (is_provided) continue;
    throw request_error(request_status::invalid_argument,
                        "sequence_id is missing: the model keeps the state \"" + state.input +
                            "\" between the requests of a sequence");
  }
}

[[nodiscard]] std::uint64_t nanoseconds_of(std::chrono::steady_clock::time_point time) noexcept {
  const auto count =
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(count, 1));
}

/// How many inferences a request is.
[[nodiscard]] std::uint64_t members_of(const run_request& request, const loaded_version& content) {
  if (content.config.max_batch_size == 0 || request.inputs.empty()) return 1;
  const auto& shape = request.inputs.front().shape;
  return shape.empty() ? 1 : static_cast<std::uint64_t>(std::max<std::int64_t>(shape.front(), 0));
}

/// The better worker for a request has the lower rank: one that is well, then one without a trial,
/// then one with few runs.
[[nodiscard]] std::tuple<bool, bool, std::size_t> rank_of(const worker_link& worker) noexcept {
  return {!worker.is_well, worker.is_in_trial, worker.runs_in_flight};
}

}  // namespace

worker_supervisor::worker_supervisor(worker_options&& options)
    : options_(std::move(options)),
      repository_(model_repository(options_.models), options_.poll_interval,
                  [this] { wake_.signal(); }) {
  for (const auto& program : options_.workers) {
    places_.push_back({.program = program, .wait = options_.first_restart});
  }
  // The first clients find all models in the catalog.
  for (const auto& news : repository_.take()) apply(news);
  thread_ = std::thread([this] { run(); });
}

worker_supervisor::~worker_supervisor() {
  is_closing_ = true;
  wake_.signal();
  thread_.join();
}

request_error worker_supervisor::no_worker() {
  return {request_status::unavailable, "no worker process can take the request now"};
}

bool worker_supervisor::is_ready() const {
  const std::lock_guard lock(mutex_);
  const auto contents = catalog_.served();
  const auto is_served = [this](std::uint32_t handle) {
    const auto worker = choose(handle);
    return worker != nullptr && worker->is_well;
  };
  return !is_draining_ && catalog_.is_ready() && is_served(0) &&
         std::all_of(contents.begin(), contents.end(),
                     [&](const auto& each) { return is_served(each->handle); });
}

model_metadata worker_supervisor::describe(std::string_view model, std::string_view version) const {
  const std::lock_guard lock(mutex_);
  return catalog_.describe(model, version);
}

backend_status worker_supervisor::status() const {
  backend_status status{.is_ready = is_ready(),
                        .request_capacity = options_.request_bytes,
                        .refused_without_worker = whole(without_worker_),
                        .refused_memory = whole(above_memory_),
                        .refused_in_flight = whole(above_in_flight_),
                        .refused_size = whole(above_size_),
                        .refused_quarantine = whole(quarantined_)};
  const std::lock_guard lock(mutex_);
  status.versions = catalog_.status();
  for (const auto& place : places_) {
    auto& worker = status.workers.emplace_back();
    worker.restarts = place.starts > 1 ? place.starts - 1 : 0;
    if (!place.worker) continue;
    worker.device = place.worker->device;
    worker.process = place.worker->process.id();
    worker.is_up = place.worker->is_open && place.worker->is_well;
    worker.runs_in_flight = place.worker->runs_in_flight.load(std::memory_order_relaxed);
    worker.request_bytes = place.worker->channel.request_bytes_in_use();
  }
  return status;
}

state_descriptor worker_supervisor::state_of(std::string_view model,
                                             std::string_view version) const {
  const std::lock_guard lock(mutex_);
  return catalog_.state_of(model, version);
}

std::unique_ptr<input_memory> worker_supervisor::allocate(std::span<const std::uint64_t> sizes) {
  auto worker = [this] {
    const std::lock_guard lock(mutex_);
    return choose(0);
  }();
  if (!worker) {
    without_worker_.Increment();
    throw no_worker();
  }
  if (!worker->channel.can_hold(sizes)) {
    above_size_.Increment();
    throw request_error(request_status::too_large,
                        "the inputs are larger than the memory for requests");
  }
  auto region = worker->channel.allocate(sizes);
  if (!region) {
    above_memory_.Increment();
    throw request_error(request_status::resource_exhausted, "the memory for requests is full");
  }
  return std::make_unique<arena_inputs>(std::move(worker), std::move(*region));
}

worker_run worker_supervisor::make_run(const run_request& request,
                                       std::shared_ptr<const loaded_version> content) {
  worker_run run{.content = std::move(content), .deadline = request.deadline};
  if (request.content != 0 && request.content != run.content->handle) {
    throw request_error(request_status::aborted, "the version of the model has been replaced");
  }
  check_state(request, run.content->config);
  auto& message = run.message;
  message.model = run.content->handle;
  message.priority = request.priority;
  message.tenant = std::hash<std::string>()(request.tenant) >> 1U;
  message.connection = request.connection;
  if (request.deadline) message.deadline_ns = nanoseconds_of(*request.deadline);
  const auto most = run.content->config.max_batch_size;
  for (const auto& input : request.inputs) {
    if (most > 0 && !input.shape.empty() && input.shape.front() > most) {
      throw request_error(request_status::invalid_argument,
                          input.name + ": the batch of " + std::to_string(input.shape.front()) +
                              " exceeds the max_batch_size of " + std::to_string(most));
    }
    const auto number = number_of(run.content->input_numbers, input.name, "input");
    check_shape(input, run.content->inputs[number].shape);
    message.inputs.push_back({.number = number, .type = input.type, .shape = input.shape});
  }
  for (const auto& output : request.outputs) {
    run.outputs.push_back(number_of(run.content->output_numbers, output, "output"));
  }
  message.outputs = run.outputs;
  std::sort(message.outputs.begin(), message.outputs.end());
  for (std::uint32_t i = 0; request.outputs.empty() && i < run.content->outputs.size(); ++i) {
    run.outputs.push_back(i);
  }
  return run;
}

std::uint64_t worker_supervisor::submit(run_request&& request, std::unique_ptr<input_memory> inputs,
                                        std::function<void(run_result)>&& done) {
  std::uint64_t number = 0;
  try {
    if (request.trace && request.trace->is_sampled) {
      done = traced_answer(done, *request.trace, request.model);
    }
    auto& memory = dynamic_cast<arena_inputs&>(*inputs);
    // A content that is found is sent before it can be unloaded.
    const std::lock_guard lock(mutex_);
    auto content = catalog_.find(request.model, request.version);
    done = counted_answer(done, content->statistics, members_of(request, *content));
    auto run = make_run(request, std::move(content));
    number = next_number_++;
    if (quarantine_.holds(run.message, clock::now())) {
      quarantined_.Increment();
      throw request_error(request_status::unavailable,
                          "requests with these shapes have ended two worker processes: they are "
                          "refused for some minutes");
    }
    run.done = done;
    run.charge = std::move(request.charge);
    const auto note = [&] {
      const auto deadline = run.deadline;
      run.worker = memory.worker;
      pending_.add(number, std::move(run));
      if (deadline && deadline->time_since_epoch().count() < wake_up_) wake_.signal();
    };
    const auto target = worker_for(run.message.model, memory.worker);
    if (target->is_in_trial) {
      if (held_.size() >= most_held) {
        throw request_error(request_status::resource_exhausted, "too many requests wait");
      }
      note();
      held_.push_back({.number = number,
                       .region = std::move(memory.region),
                       .end = clock::now() + longest_wait});
      return number;
    }
    run.attempts = 1;
    auto message = run.message;
    send(number, std::move(message), memory.worker, memory.region, target, note);
    return number;
  } catch (const request_error& failure) {
    if (failure.status() == request_status::resource_exhausted) above_in_flight_.Increment();
    request.charge.reset();
    fail(number, done, failure);
  } catch (const std::exception& failure) {
    request.charge.reset();
    fail(number, done, request_error(request_status::internal, failure.what()));
  }
  return number;
}

void worker_supervisor::fail(std::uint64_t number, const std::function<void(run_result)>& done,
                             const request_error& failure) {
  // It may have been noted and then cancelled.
  auto run = pending_.take(number);
  // The answer may be followed by the next request.
  if (run) run->charge.reset();
  if (!run || run->done) done({.error = failure});
}

std::shared_ptr<worker_link> worker_supervisor::worker_for(
    std::uint32_t handle, const std::shared_ptr<worker_link>& worker) const {
  if (worker->is_open && worker->contents.contains(handle)) return worker;
  auto other = choose(handle);
  if (!other) throw no_worker();
  return other;
}

void worker_supervisor::send(std::uint64_t number, run_message message,
                             std::shared_ptr<worker_link>& worker, request_region& region,
                             const std::shared_ptr<worker_link>& target,
                             const std::function<void()>& note) {
  if (worker != target) {
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = 0; i < region.size(); ++i) sizes.push_back(region.tensor(i).size());
    auto copy = target->channel.allocate(sizes);
    if (!copy) {
      throw request_error(request_status::resource_exhausted, "the memory for requests is full");
    }
    for (std::size_t i = 0; i < region.size(); ++i) {
      std::copy_n(region.tensor(i).data(), sizes[i], copy->tensor(i).data());
    }
    worker = target;
    region = std::move(*copy);
  }
  message.number = number;
  // Before the message: the reply may come at once.
  note();
  worker->runs_in_flight.fetch_add(1, std::memory_order_relaxed);
  bool is_sent = false;
  try {
    is_sent = worker->channel.send(message, region);
  } catch (const arena_fault&) {
    worker->runs_in_flight.fetch_sub(1, std::memory_order_relaxed);
    worker->has_fault = true;
    wake_.signal();
    throw no_worker();
  } catch (...) {
    worker->runs_in_flight.fetch_sub(1, std::memory_order_relaxed);
    throw;
  }
  if (is_sent) return;
  worker->runs_in_flight.fetch_sub(1, std::memory_order_relaxed);
  throw request_error(request_status::resource_exhausted,
                      "too many requests are in flight in the worker process");
}

std::shared_ptr<worker_link> worker_supervisor::choose(std::uint32_t handle) const {
  std::shared_ptr<worker_link> best;
  for (const auto& place : places_) {
    const auto& worker = place.worker;
    if (!worker || !worker->is_open) continue;
    if (handle != 0 && !worker->contents.contains(handle)) continue;
    if (!best || rank_of(*worker) < rank_of(*best)) best = worker;
  }
  return best;
}

void worker_supervisor::cancel(std::uint64_t number) noexcept {
  auto done = pending_.take_answer(number);
  try {
    const std::lock_guard lock(mutex_);
    const auto worker = pending_.worker_of(number);
    if (worker && worker->is_open) (void)worker->channel.cancel(number);
  } catch (const std::exception&) {
    // The worker has damaged its memory, which the supervisor notices, or memory is short: the
    // request is computed in vain.
  }
  if (done) done({.error = request_error(request_status::cancelled, "the request was cancelled")});
}

}  // namespace sluice::service
