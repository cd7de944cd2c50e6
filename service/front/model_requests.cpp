// SPDX-License-Identifier: Apache-2.0
// The part of worker_supervisor that answers requests to load and unload models.
#include "service/base/log.hpp"
#include "service/front/worker_supervisor.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace sluice::service {
namespace {

// Their clients may have hung up.
constexpr std::size_t most_loads = 1024;

[[nodiscard]] request_error service_ends() {
  return {request_status::unavailable, "the service ends"};
}

[[nodiscard]] std::string load_failure(const std::string& model, const std::string& reason) {
  return "model \"" + model + "\" cannot be loaded: " + reason;
}

/// Why a load failed, from the problem of its model.
[[nodiscard]] std::optional<request_error> failure_of(const std::string& model,
                                                      const std::string& problem) {
  if (problem.empty()) return std::nullopt;
  return request_error(request_status::invalid_argument, load_failure(model, problem));
}

}  // namespace

model_config worker_supervisor::configuration(std::string_view model,
                                              std::string_view version) const {
  const std::lock_guard lock(mutex_);
  return catalog_.configuration(model, version);
}

std::vector<repository_entry> worker_supervisor::index() const {
  const std::lock_guard lock(mutex_);
  return catalog_.index();
}

void worker_supervisor::load(std::string&& model, load_answer&& done) {
  add({.is_load = true,
       .model = std::move(model),
       .done = std::move(done),
       .end = clock::now() + options_.load_timeout});
}

void worker_supervisor::unload(std::string&& model, load_answer&& done) {
  add({.model = std::move(model), .done = std::move(done)});
}

void worker_supervisor::add(model_request request) {
  {
    const std::lock_guard lock(mutex_);
    model_requests_.push_back(std::move(request));
  }
  wake_.signal();
}

void worker_supervisor::take_model_requests() {
  auto requests = [this] {
    const std::lock_guard lock(mutex_);
    return std::exchange(model_requests_, {});
  }();
  for (auto& request : requests) {
    if (request.is_load) {
      begin_load(std::move(request));
    } else {
      end_model(std::move(request));
    }
  }
}

void worker_supervisor::begin_load(model_request request) {
  if (is_draining_) return request.done(service_ends());
  if (loads_.size() >= most_loads) {
    return request.done(request_error(request_status::resource_exhausted,
                                      "too many models are being loaded by request"));
  }
  request.number = next_load_++;
  loads_.push_back(std::move(request));
  repository_.look_at({.number = loads_.back().number, .model = loads_.back().model});
}

void worker_supervisor::end_model(model_request request) {
  std::vector<std::uint32_t> contents;
  try {
    const std::lock_guard lock(mutex_);
    contents = catalog_.unload(request.model);
  } catch (const request_error& e) {
    return request.done(e);
  }
  write_log(log_level::info, "model unloaded by request", {{"model", request.model}});
  unload(contents);
  // These loads came first: the model stays unloaded.
  std::erase_if(loads_, [&](model_request& load) {
    if (load.model != request.model) return false;
    if (load.done) {
      load.done(request_error(request_status::unavailable,
                              load_failure(load.model, "it was unloaded by request")));
    }
    return true;
  });
  request.done(std::nullopt);
}

std::vector<std::string> worker_supervisor::take_looks(const repository_news& news) {
  std::vector<std::string> models;
  for (const auto& look : news.looks) {
    const auto load = std::find_if(loads_.begin(), loads_.end(),
                                   [&](const auto& each) { return each.number == look.number; });
    if (load == loads_.end()) continue;
    std::optional<request_error> failure;
    if (!news.problem.empty()) {
      failure.emplace(request_status::unavailable, load_failure(look.model, news.problem));
    } else if (!news.index->models.contains(look.model)) {
      failure.emplace(request_status::not_found, "there is no model \"" + look.model + "\"");
    }
    if (failure) {
      if (load->done) load->done(failure);
      loads_.erase(load);
    } else {
      load->has_been_read = true;
      models.push_back(look.model);
    }
  }
  return models;
}

void worker_supervisor::answer_loads() {
  if (loads_.empty()) return;
  const auto now = clock::now();
  std::vector<std::pair<load_answer, std::optional<request_error>>> answers;
  answers.reserve(loads_.size());
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(loads_, [&](model_request& load) {
      const auto problem =
          load.has_been_read ? catalog_.load_problem(load.model) : std::optional<std::string>();
      if (problem) {
        answers.emplace_back(std::move(load.done), failure_of(load.model, *problem));
        return true;
      }
      if (now < load.end) return false;
      answers.emplace_back(std::move(load.done),
                           request_error(request_status::deadline_exceeded,
                                         "model \"" + load.model + "\" is still being loaded"));
      load.done = nullptr;
      return load.has_been_read;
    });
  }
  for (const auto& [done, failure] : answers) {
    if (done) done(failure);
  }
}

void worker_supervisor::fail_loads() {
  auto requests = std::exchange(loads_, {});
  {
    const std::lock_guard lock(mutex_);
    for (auto& request : std::exchange(model_requests_, {})) requests.push_back(std::move(request));
  }
  for (const auto& request : requests) {
    if (request.done) request.done(service_ends());
  }
}

}  // namespace sluice::service
