// SPDX-License-Identifier: Apache-2.0
#include "service/front/worker_supervisor.hpp"

#include "service/base/log.hpp"
#include "service/front/counted_answer.hpp"
#include "service/front/reply_watch.hpp"
#include "service/metrics/metric_value.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <poll.h>
#include <set>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace sluice::service {
namespace {

constexpr std::chrono::milliseconds orphan_interval{20};
constexpr std::chrono::milliseconds look_interval{10};  // at processes and control sockets
constexpr std::chrono::seconds stable_time{60};         // a worker that lives longer restarts soon
constexpr std::chrono::seconds longest_wait{30};        // of a request for another worker
constexpr std::chrono::seconds closing_time{5};         // of a worker that ends by itself
constexpr std::chrono::seconds check_interval{2};       // between checks of a worker
constexpr std::chrono::seconds longest_opening{60};     // of a device, at least
constexpr std::chrono::seconds longest_check{10};       // of a worker that counts as well
constexpr std::size_t longest_device = 64;              // characters of its name
constexpr unsigned most_deaths = 2;  // of workers, because of one request or one model

[[nodiscard]] std::vector<tensor_metadata> tensors_of(const nlohmann::json& list) {
  std::vector<tensor_metadata> tensors;
  for (const auto& each : list) {
    const auto type = datatype_from(each.at("datatype").get<std::string>());
    if (!type) throw std::runtime_error("unknown datatype");
    tensors.push_back({.name = each.at("name").get<std::string>(),
                       .type = *type,
                       .shape = each.at("shape").get<std::vector<std::int64_t>>()});
  }
  return tensors;
}

[[nodiscard]] nlohmann::json warm_ups_of(const model_config& config) {
  auto orders = nlohmann::json::array();
  for (const auto& each : config.warm_ups) {
    auto inputs = nlohmann::json::array();
    for (const auto& input : each.inputs) {
      auto shape = input.tensor.dims;
      if (each.batch_size > 0) shape.insert(shape.begin(), each.batch_size);
      inputs.push_back({{"name", input.tensor.name},
                        {"datatype", to_string(input.tensor.type)},
                        {"shape", shape},
                        {"random", input.is_random}});
    }
    orders.push_back({{"name", each.name}, {"count", each.count}, {"inputs", std::move(inputs)}});
  }
  return orders;
}

[[nodiscard]] std::uint32_t number_of(const std::unordered_map<std::string, std::uint32_t>& numbers,
                                      const std::string& name, const char* kind) {
  const auto found = numbers.find(name);
  if (found != numbers.end()) return found->second;
  throw request_error(request_status::invalid_argument,
                      "the model has no " + std::string(kind) + " \"" + name + "\"");
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

/// The better worker for a request has the lower rank: one that is well, then one with few runs.
[[nodiscard]] std::pair<bool, std::size_t> rank_of(const worker_link& worker) noexcept {
  return {!worker.is_well, worker.runs_in_flight};
}

[[nodiscard]] request_error no_worker() {
  return {request_status::unavailable, "no worker process can take the request now"};
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
                        .refused_size = whole(above_size_)};
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
    message.inputs.push_back({.number = number_of(run.content->input_numbers, input.name, "input"),
                              .type = input.type,
                              .shape = input.shape});
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
    auto& memory = dynamic_cast<arena_inputs&>(*inputs);
    // A content that is found is sent before it can be unloaded.
    const std::lock_guard lock(mutex_);
    auto content = catalog_.find(request.model, request.version);
    done = counted_answer(done, content->statistics, members_of(request, *content));
    auto run = make_run(request, std::move(content));
    number = next_number_++;
    run.done = done;
    const auto message = run.message;
    send(number, message, std::move(memory.worker), memory.region,
         [&](std::shared_ptr<worker_link> worker) {
           const auto deadline = run.deadline;
           run.worker = std::move(worker);
           run.attempts = 1;
           pending_.add(number, std::move(run));
           if (deadline && deadline->time_since_epoch().count() < wake_up_) wake_.signal();
         });
    return number;
  } catch (const request_error& failure) {
    if (failure.status() == request_status::resource_exhausted) above_in_flight_.Increment();
    fail(number, done, failure);
  } catch (const std::exception& failure) {
    fail(number, done, request_error(request_status::internal, failure.what()));
  }
  return number;
}

void worker_supervisor::fail(std::uint64_t number, const std::function<void(run_result)>& done,
                             const request_error& failure) {
  // It may have been noted and then cancelled.
  const auto run = pending_.take(number);
  if (!run || run->done) done({.error = failure});
}

void worker_supervisor::send(std::uint64_t number, const run_message& content,
                             std::shared_ptr<worker_link> worker, request_region& region,
                             const std::function<void(std::shared_ptr<worker_link>)>& note) {
  if (!worker->is_open || !worker->contents.contains(content.model)) {
    const auto other = choose(content.model);
    if (!other) throw no_worker();
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = 0; i < region.size(); ++i) sizes.push_back(region.tensor(i).size());
    auto copy = other->channel.allocate(sizes);
    if (!copy) {
      throw request_error(request_status::resource_exhausted, "the memory for requests is full");
    }
    for (std::size_t i = 0; i < region.size(); ++i) {
      std::copy_n(region.tensor(i).data(), sizes[i], copy->tensor(i).data());
    }
    worker = other;
    region = std::move(*copy);
  }
  auto message = content;
  message.number = number;
  // Before the message: the reply may come at once.
  note(worker);
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
  if (!orphans_.empty()) retry_orphans();
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

bool worker_supervisor::take_messages(const std::shared_ptr<worker_link>& worker) {
  if (worker->is_faulty) return false;
  if (!worker->closed) (void)worker->control.flush();
  bool has_worked = false;
  while (const auto message = worker->control.receive()) {
    obey(*worker, *message);
    has_worked = true;
  }
  if (worker->control.is_closed()) end_closed(*worker);
  return has_worked;
}

void worker_supervisor::obey(worker_link& worker, const nlohmann::json& message) {
  if (message.contains("opened")) {
    const auto contents = [&] {
      const std::lock_guard lock(mutex_);
      worker.is_open = true;
      worker.device = message.at("opened").get<std::string>().substr(0, longest_device);
      return catalog_.wanted();
    }();
    for (const auto& content : contents) load(worker, *content);
    return;
  }
  if (message.contains("loaded")) {
    const auto handle = message.at("loaded").get<std::uint32_t>();
    std::erase(worker.loads, handle);
    deaths_.erase(handle);
    bool is_wanted = false;
    {
      const std::lock_guard lock(mutex_);
      is_wanted = catalog_.wants(handle);
      if (is_wanted) worker.contents.insert(handle);
    }
    if (is_wanted) {
      declared_[handle] = {tensors_of(message.at("inputs")), tensors_of(message.at("outputs"))};
      serve_loaded();
    } else {
      unload({handle});
    }
  } else if (message.contains("checked")) {
    note_check(worker, message.at("checked").get<std::uint64_t>());
  } else if (message.contains("refused")) {
    const auto handle = message.at("refused").get<std::uint32_t>();
    std::erase(worker.loads, handle);
    const bool others_serve_it = [&] {
      const std::lock_guard lock(mutex_);
      return catalog_.serves(handle) && choose(handle) != nullptr;
    }();
    auto problem = message.at("problem").get<std::string>();
    if (others_serve_it) {
      write_log(log_level::error, "worker cannot load a model that others serve",
                {{"worker", worker.process.id()}, {"problem", problem}});
    } else {
      refuse(handle, std::move(problem));
    }
  } else {
    throw std::runtime_error("it has sent an unknown message");
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

void worker_supervisor::serve_loaded() {
  std::vector<std::uint32_t> unloads;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& content : catalog_.loading()) {
      const auto handle = content->handle;
      const bool all_have_it = std::all_of(places_.begin(), places_.end(), [&](const auto& place) {
        return !place.worker || !place.worker->is_open || place.worker->contents.contains(handle);
      });
      auto declared = declared_.extract(handle);
      if (declared.empty()) continue;
      if (!all_have_it || !choose(handle)) {
        declared_.insert(std::move(declared));
        continue;
      }
      const auto ended = catalog_.note_loaded(handle, std::move(declared.mapped().inputs),
                                              std::move(declared.mapped().outputs));
      unloads.insert(unloads.end(), ended.begin(), ended.end());
      const bool is_served = catalog_.wants(handle);
      write_log(
          is_served ? log_level::info : log_level::error,
          is_served ? "model is served" : "model is not what its config states",
          {{"model", content->model}, {"version", static_cast<std::int64_t>(content->version)}});
    }
  }
  unload(unloads);
}

void worker_supervisor::refuse(std::uint32_t handle, std::string problem) {
  write_log(log_level::error, "model cannot be loaded", {{"problem", problem}});
  const auto unloads = [&] {
    const std::lock_guard lock(mutex_);
    return catalog_.note_refused(handle, std::move(problem));
  }();
  unload(unloads);
}

void worker_supervisor::load(worker_link& worker, const loaded_version& content) noexcept {
  try {
    const auto path =
        "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(content.file->get());
    const bool is_sent = worker.control.send({{"load", content.handle},
                                              {"path", path},
                                              {"name", content.model},
                                              {"lanes", content.config.lanes},
                                              {"precision", to_string(content.config.precision)},
                                              {"warm_ups", warm_ups_of(content.config)}});
    if (!is_sent) throw std::runtime_error("it reads no orders");
    worker.loads.push_back(content.handle);
  } catch (const std::exception& e) {
    kill(worker, e.what());
  }
}

void worker_supervisor::unload(const std::vector<std::uint32_t>& handles) {
  for (const auto handle : handles) {
    for (const auto& place : places_) {
      if (!place.worker || !place.worker->is_open || place.worker->is_faulty) continue;
      {
        const std::lock_guard lock(mutex_);
        place.worker->contents.erase(handle);
      }
      std::erase(place.worker->loads, handle);
      try {
        (void)place.worker->control.send({{"unload", handle}});
      } catch (const std::exception& e) {
        kill(*place.worker, e.what());
      }
    }
    declared_.erase(handle);
    deaths_.erase(handle);
  }
}

void worker_supervisor::apply(const repository_news& news) {
  for (const auto& name : news.changes.problems) {
    const auto model = news.index->models.find(name);
    if (model == news.index->models.end() || model->second.problem.empty()) continue;
    write_log(log_level::error, "model has a problem",
              {{"model", name}, {"problem", model->second.problem}});
  }
  const auto requested = take_looks(news);
  const auto orders = [&] {
    const std::lock_guard lock(mutex_);
    return catalog_.apply(news, requested);
  }();
  for (const auto& content : orders.loads) {
    for (const auto& place : places_) {
      if (place.worker && place.worker->is_open && !place.worker->is_faulty) {
        load(*place.worker, *content);
      }
    }
  }
  unload(orders.unloads);
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
  if (!orphans_.empty()) wake_up = std::min(wake_up, clock::now() + orphan_interval);
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
