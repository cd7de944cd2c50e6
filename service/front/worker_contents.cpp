// SPDX-License-Identifier: Apache-2.0
// The part of worker_supervisor that has workers load and unload models.
#include "service/base/log.hpp"
#include "service/front/worker_supervisor.hpp"
#include "service/repository/chain_steps.hpp"

#include <sluice/version.hpp>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>

namespace sluice::service {
namespace {

// Characters.
constexpr std::size_t longest_device = 64;
constexpr std::size_t longest_version = 32;

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

/// Where a worker opens a file that the front has open.
[[nodiscard]] std::string path_of(const file_descriptor& file) {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file.get());
}

[[nodiscard]] nlohmann::json names_of(const std::vector<config_tensor>& tensors) {
  auto names = nlohmann::json::array();
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  return names;
}

/// What a worker has to read: the file of a model, or a chain of them.
[[nodiscard]] nlohmann::json source_of(const loaded_version& content) {
  const auto& config = content.config;
  if (config.steps.empty()) return {{"path", path_of(*content.files.at(0))}};
  auto steps = nlohmann::json::array();
  for (std::size_t i = 0; i < config.steps.size(); ++i) {
    const auto& step = config.steps[i];
    steps.push_back({{"name", step_name(i, step.model)},
                     {"path", path_of(*content.files.at(i))},
                     {"inputs", step.inputs},
                     {"outputs", step.outputs}});
  }
  return {{"inputs", names_of(config.inputs)},
          {"steps", std::move(steps)},
          {"outputs", names_of(config.outputs)}};
}

}  // namespace

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
    const auto version = message.value("version", std::string("unknown"));
    if (version != sluice::version) {
      throw std::runtime_error("its version is " + version.substr(0, longest_version) +
                               ", that of the server " + std::string(sluice::version));
    }
    const auto contents = [&] {
      const std::lock_guard lock(mutex_);
      worker.is_open = true;
      if (worker.device.empty()) {
        worker.device = message.at("opened").get<std::string>().substr(0, longest_device);
      }
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
      const auto version = static_cast<std::int64_t>(content->version);
      if (catalog_.wants(handle)) {
        write_log(log_level::info, "model is served",
                  {{"model", content->model}, {"version", version}});
      } else {
        write_log(log_level::error, "model cannot be loaded",
                  {{"model", content->model},
                   {"version", version},
                   {"problem", catalog_.load_problem(content->model).value_or("")}});
      }
    }
  }
  unload(unloads);
}

void worker_supervisor::refuse(std::uint32_t handle, std::string problem) {
  std::vector<std::uint32_t> unloads;
  {
    const std::lock_guard lock(mutex_);
    if (const auto content = catalog_.content_of(handle)) {
      write_log(log_level::error, "model cannot be loaded",
                {{"model", content->model},
                 {"version", static_cast<std::int64_t>(content->version)},
                 {"problem", problem}});
    }
    unloads = catalog_.note_refused(handle, std::move(problem));
  }
  unload(unloads);
}

void worker_supervisor::load(worker_link& worker, const loaded_version& content) noexcept {
  try {
    const bool is_sent = worker.control.send({{"load", content.handle},
                                              {"source", source_of(content)},
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
    const std::lock_guard lock(mutex_);
    quarantine_.release(handle);
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

}  // namespace sluice::service
