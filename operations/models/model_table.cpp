// SPDX-License-Identifier: Apache-2.0
#include "operations/models/model_table.hpp"

#include "operations/models/corner_copy.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice::detail {
namespace {

[[nodiscard]] model_description description_of(const served_model& model) {
  const auto& source = model.source.source();
  return {.name = model.name,
          .inputs = source.inputs(),
          .outputs = source.outputs(),
          .programs = model.programs.programs(),
          .waiting = model.waiting->requests()};
}

/// The outputs of the program that a request wants, in order; empty if these are all.
[[nodiscard]] std::vector<std::uint32_t> wanted_outputs(const model_request& request,
                                                        const program_outcome& outcome) {
  std::vector<std::uint32_t> numbers;
  if (request.outputs.empty()) {
    numbers = outcome.outputs;
  } else {
    for (const auto output : request.outputs) numbers.push_back(outcome.outputs[output]);
  }
  bool are_all = numbers.size() == outcome.what.outputs();
  for (std::size_t i = 0; are_all && i < numbers.size(); ++i) are_all = numbers[i] == i;
  if (are_all) numbers.clear();
  return numbers;
}

/// The shapes of the results of a request, by output of the program; none if they are not cut.
[[nodiscard]] std::vector<extents> shapes_of(const model_request& request,
                                             const program_outcome& outcome) {
  std::vector<extents> shapes;
  if (!request.unpadded_key) return shapes;
  shapes.resize(outcome.what.outputs());
  for (std::size_t i = 0; i < outcome.outputs.size(); ++i) {
    shapes[outcome.outputs[i]] = request.unpadded_results[i].shape;
  }
  return shapes;
}

/// The bytes of the results that a request wants, before they are cut; 0 if they are unknown.
[[nodiscard]] std::size_t result_bytes_of(const model_request& request,
                                          const program_outcome& outcome) noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < outcome.results.size(); ++i) {
    const auto& wanted = request.outputs;
    const bool is_wanted =
        wanted.empty() || std::find(wanted.begin(), wanted.end(), i) != wanted.end();
    if (is_wanted) bytes += outcome.results[i].bytes();
  }
  return bytes;
}

/// The run of a request, whose inputs it takes.
[[nodiscard]] model_run run_of(model_request& request, const program_outcome& outcome) {
  model_run run{.what = outcome.what,
                .outputs = wanted_outputs(request, outcome),
                .shapes = shapes_of(request, outcome),
                .result_bytes = result_bytes_of(request, outcome),
                .results = outcome.results};
  run.inputs.reserve(outcome.inputs.size());
  for (const auto number : outcome.inputs) {
    auto& input = request.inputs[number];
    if (request.unpadded_key && input.on_host()) {
      input = padded_to(input.on_host(), request.key->inputs()[number].shape);
    }
    run.inputs.push_back(std::move(input));
  }
  return run;
}

/// The host memory of inputs, in bytes.
[[nodiscard]] std::size_t host_bytes_of_inputs(const std::vector<run_input>& inputs) noexcept {
  std::size_t sum = 0;
  for (const auto& input : inputs) sum += input.on_host().bytes();
  return sum;
}

/// Whether the results of a request are parts of those of the program, and small enough if they are
/// copied: a completion thread copies them.
[[nodiscard]] bool are_parts(const model_request& request, const program_outcome& outcome) {
  constexpr std::size_t max_copied_bytes = std::size_t{4} << 20U;
  const auto& results = request.unpadded_results;
  if (results.size() != outcome.results.size()) return false;
  std::size_t copied_bytes = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& part = results[i].shape;
    const auto& whole = outcome.results[i].shape;
    if (part.size() != whole.size()) return false;
    for (std::size_t axis = 0; axis < whole.size(); ++axis) {
      if (part[axis] > whole[axis]) return false;
    }
    if (!are_shared(part, whole)) copied_bytes += results[i].bytes();
  }
  return !request.to_host || copied_bytes <= max_copied_bytes;
}

[[nodiscard]] bool has_expired(const model_request& request, timer::time_point now) noexcept {
  return request.options.deadline && *request.options.deadline <= now;
}

}  // namespace

void model_table::ended_attempts::add(std::shared_ptr<attempt> ended) noexcept {
  const std::lock_guard lock(mutex_);
  ended->next = std::move(last_);
  last_ = std::move(ended);
}

std::shared_ptr<model_table::attempt> model_table::ended_attempts::take() noexcept {
  std::shared_ptr<attempt> last;
  {
    const std::lock_guard lock(mutex_);
    last = std::move(last_);
  }
  std::shared_ptr<attempt> first;
  while (last) {
    auto earlier = std::exchange(last->next, std::move(first));
    first = std::exchange(last, std::move(earlier));
  }
  return first;
}

model_table::model_table(std::shared_ptr<device_service> service, std::function<void()> wake)
    : service_(std::move(service)),
      wake_(std::move(wake)),
      planner_(service_->runtime().shared_device(), 2) {}

model_table::~model_table() {
  close();
}

void model_table::close() noexcept {
  ended_->close();
  fail_waiting(failures_.closed, [](const model_request&) { return true; });
}

void model_table::require_open() const {
  if (ended_->is_closed()) throw error(failures_.closed);
}

model_description model_table::load(const load_model& request) {
  if (request.name.empty()) throw invalid_argument("name", "is empty");
  if (request.max_programs == 0) throw invalid_argument("max_programs", "is 0");
  auto model = std::make_shared<served_model>(request, waiting_count_of(request.name));
  auto description = description_of(*model);
  models_.insert_or_assign(model->name, std::move(model));
  return description;
}

model_list model_table::unload(const unload_model& request) {
  const auto model = find(request.name);
  model_list others;
  for (const auto& [name, other] : models_) {
    if (other != model) others.names.push_back(name);
  }
  models_.erase(model->name);
  return others;
}

model_list model_table::list() const {
  model_list all;
  for (const auto& [name, model] : models_) all.names.push_back(name);
  return all;
}

model_description model_table::describe(const describe_model& request) const {
  return description_of(*find(request.name));
}

queue_status model_table::status() const noexcept {
  queue_status status{.requests = waiting_.size(), .planning = waiting_.size()};
  if (waiting_.empty()) return status;
  for (const auto& [number, request] : waiting_) status.bytes += request->bytes;
  status.oldest = service_->timer().now() - waiting_.begin()->second->wait_start;
  return status;
}

const std::shared_ptr<served_model>& model_table::find(const std::string& name) const {
  const auto found = models_.find(name);
  if (found != models_.end()) return found->second;
  throw invalid_argument("name", "there is no model " + displayed_name(name));
}

std::shared_ptr<waiting_count> model_table::waiting_count_of(const std::string& name) const {
  for (const auto& [number, request] : waiting_) {
    if (request->model->name == name) return request->model->waiting;
  }
  return std::make_shared<waiting_count>();
}

void model_table::run(std::unique_ptr<model_request> request, run_model&& model) noexcept {
  const auto failure = failure_of([&] {
    require_open();
    request->model = find(model.name);
    const auto& source = request->model->source;
    request->outputs = source.number_outputs(model.outputs);
    request->inputs = source.order_inputs(std::move(model.inputs));
    request->key = source.key_of(request->inputs, request->options.bits);
    request->bytes = host_bytes_of_inputs(request->inputs);
  });
  if (failure) return request->fail(*failure);
  proceed(std::move(request));
}

void model_table::proceed(std::unique_ptr<model_request> request) noexcept {
  const auto failure = failure_of([&] {
    auto& programs = request->model->programs;
    for (;;) {
      const auto entry = programs.find(*request->key);
      if (!entry || !entry->outcome) return wait(request, entry);
      if (!apply(*request, *entry->outcome)) return;
    }
  });
  if (failure && request) request->fail(*failure);
}

bool model_table::apply(model_request& request, const program_outcome& outcome) {
  if (request.unpadded_key && (outcome.failure || !are_parts(request, outcome))) {
    // There is no such program with rounded extents.
    request.key = request.unpadded_key->unrounded();
    request.unpadded_key.reset();
    return true;
  }
  if (outcome.is_for_results()) {
    if (outcome.results.empty()) {
      request.key = request.key->unrounded();
      return true;
    }
    auto rounded = request.key->rounded();
    request.unpadded_results = outcome.results;
    request.unpadded_key = std::exchange(request.key, std::move(rounded));
    return true;
  }
  if (!outcome.failure) {
    request.run(run_of(request, outcome));
    return false;
  }
  if (outcome.unbound_inputs.empty()) throw error(*outcome.failure);
  request.model->source.bind_inputs(*request.key, outcome.unbound_inputs, request.inputs);
  return true;
}

void model_table::wait(std::unique_ptr<model_request>& request,
                       const std::shared_ptr<program_cache::entry>& entry) {
  const auto model = request->model;  // make_next may end the request
  request->wait_start = service_->timer().now();
  if (has_expired(*request, request->wait_start)) throw error(failures_.expired);
  model->waiting->add(request->sender, request->bytes);
  const auto number = next_number_++;
  auto awaited = entry;
  const auto failure = failure_of([&] {
    if (!awaited) awaited = model->programs.add(*request->key);
    awaited->waiting.push_back(number);
    if (request->options.deadline) {
      request->alarm = service_->timer().call_at(*request->options.deadline, wake_);
    }
    const auto place = waiting_.emplace(number, nullptr).first;
    request->awaited = awaited;
    place->second = std::move(request);
  });
  if (failure) {
    if (awaited) {
      std::erase(awaited->waiting, number);
      model->programs.drop_unless_awaited(*awaited);
    }
    if (request->alarm.number != 0) service_->timer().cancel(request->alarm);
    model->waiting->remove(request->sender, request->bytes);
    throw error(*failure);
  }
  make_next(model);
}

std::unique_ptr<model_request> model_table::take(std::uint64_t number) noexcept {
  auto node = waiting_.extract(number);
  if (node.empty()) return nullptr;
  auto request = std::move(node.mapped());
  if (request->alarm.number != 0) service_->timer().cancel(request->alarm);
  std::erase(request->awaited->waiting, number);
  request->model->programs.drop_unless_awaited(*request->awaited);
  request->awaited.reset();
  request->model->waiting->remove(request->sender, request->bytes);
  return request;
}

template <class Predicate>
void model_table::fail_waiting(const error& why, const Predicate& predicate) noexcept {
  for (auto i = waiting_.begin(); i != waiting_.end();) {
    const auto& [number, request] = *i++;
    if (predicate(*request)) take(number)->fail(why);
  }
}

void model_table::cancel(request_sender sender, std::uint64_t id) noexcept {
  if (id == 0 || waiting_.empty()) return;
  fail_waiting(failures_.cancelled,
               [&](const model_request& r) { return r.sender == sender && r.options.id == id; });
}

void model_table::sender_ended(request_sender sender) noexcept {
  fail_waiting(failures_.sender_ended,
               [&](const model_request& r) { return r.sender == sender && r.options.while_alive; });
}

void model_table::work() noexcept {
  fail_expired();
  for (auto ended = ended_->take(); ended; ended = std::exchange(ended->next, nullptr)) {
    auto& model = ended->model;
    --attempts_;
    if (ended_->is_closed()) continue;
    model->last_length = ended->length;
    model->is_making = false;
    finish(model, ended->entry, std::move(ended->outcome));
    make_next(model);
  }
}

void model_table::fail_expired() noexcept {
  if (waiting_.empty()) return;
  const auto now = service_->timer().now();
  fail_waiting(failures_.expired, [&](const model_request& r) { return has_expired(r, now); });
}

void model_table::make_next(const std::shared_ptr<served_model>& model) noexcept {
  while (!model->is_making) {
    const auto entry = model->programs.begin_next();
    if (!entry) return;
    model->is_making = true;
    const auto failure = failure_of([&] { post(model, entry); });
    if (!failure) {
      ++attempts_;
      return;
    }
    model->is_making = false;
    finish(model, entry, program_outcome{.failure = failure});
  }
}

void model_table::post(const std::shared_ptr<served_model>& model,
                       const std::shared_ptr<program_cache::entry>& entry) {
  auto next = std::make_shared<attempt>();
  next->model = model;
  next->entry = entry;
  // The service outlives the job, whose end this object waits for.
  const auto job = [next, ended = ended_, wake = wake_, &clock = service_->timer()] {
    const auto start = clock.now();
    if (!ended->is_closed()) next->outcome = next->model->source.make_program(next->entry->key);
    const bool is_short = clock.now() - start < std::chrono::milliseconds(20);
    next->length = is_short ? planner::job_length::short_job : planner::job_length::long_job;
    ended->add(next);
    wake();
  };
  makers_.post(job, model->last_length);
}

void model_table::finish(const std::shared_ptr<served_model>& model,
                         const std::shared_ptr<program_cache::entry>& entry,
                         program_outcome&& outcome) noexcept {
  // The cache may drop the entry.
  const auto kept = entry;
  model->programs.finish(*kept, std::move(outcome));
  while (!kept->waiting.empty()) {
    auto request = take(kept->waiting.front());
    bool needs_other = false;
    const auto failure = failure_of([&] { needs_other = apply(*request, *kept->outcome); });
    if (failure) {
      request->fail(*failure);
    } else if (needs_other) {
      proceed(std::move(request));
    }
  }
}

}  // namespace sluice::detail
