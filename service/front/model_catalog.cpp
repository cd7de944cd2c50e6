// SPDX-License-Identifier: Apache-2.0
#include "service/front/model_catalog.hpp"

#include "service/protocol/request_error.hpp"

#include <algorithm>
#include <utility>

namespace sluice::service {
namespace {

constexpr const char* unloaded_problem = "it was unloaded by request";

[[nodiscard]] std::unordered_map<std::string, std::uint32_t> number_names(
    const std::vector<tensor_metadata>& tensors) {
  std::unordered_map<std::string, std::uint32_t> numbers;
  for (const auto& tensor : tensors) {
    numbers.emplace(tensor.name, static_cast<std::uint32_t>(numbers.size()));
  }
  return numbers;
}

[[nodiscard]] std::string displayed(std::string_view model, std::string_view version) {
  std::string text = "model \"" + std::string(model) + "\"";
  if (!version.empty()) text += ", version " + std::string(version);
  return text;
}

/// Why tensors of a model are not those of its config; empty if they are.
[[nodiscard]] std::string mismatch_of(const std::vector<config_tensor>& config,
                                      const std::vector<tensor_metadata>& tensors,
                                      bool has_batch_axis, const std::string& kind) {
  for (const auto& each : config) {
    const auto tensor = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const auto& t) { return t.name == each.name; });
    if (tensor == tensors.end()) {
      return "the config has the " + kind + " " + each.name + ", which the model has not";
    }
    auto dims = each.dims;
    if (has_batch_axis) dims.insert(dims.begin(), -1);
    bool fits = tensor->type == each.type && tensor->shape.size() == dims.size();
    for (std::size_t i = 0; fits && i < dims.size(); ++i) {
      fits = dims[i] == -1 || tensor->shape[i] == -1 || dims[i] == tensor->shape[i];
    }
    if (!fits) return "the config states another type or shape for the " + kind + " " + each.name;
  }
  return {};
}

/// Gives inputs the extents that the config states and the model leaves free.
void narrow(std::vector<tensor_metadata>& inputs, const model_config& config) {
  const std::size_t first = config.max_batch_size > 0 ? 1 : 0;
  for (const auto& each : config.inputs) {
    const auto input = std::find_if(inputs.begin(), inputs.end(),
                                    [&](const auto& tensor) { return tensor.name == each.name; });
    for (std::size_t i = 0; i < each.dims.size(); ++i) {
      auto& extent = input->shape[first + i];
      if (extent == -1) extent = each.dims[i];
    }
  }
}

/// Why a model has no batch axis, as its config states; empty if it has one.
[[nodiscard]] std::string batch_problem_of(const model_config& config,
                                           const std::vector<tensor_metadata>& inputs) {
  if (config.max_batch_size == 0) return {};
  for (const auto& input : inputs) {
    const auto batch = input.shape.empty() ? 0 : input.shape.front();
    if (batch == -1 || (batch == 1 && config.max_batch_size == 1)) continue;
    return "max_batch_size is " + std::to_string(config.max_batch_size) +
           ", but the first extent of the input " + input.name + " is not free";
  }
  return {};
}

/// Tensors of a model as its config has them, without the batch axis.
[[nodiscard]] std::vector<config_tensor> config_tensors(const std::vector<tensor_metadata>& tensors,
                                                        bool has_batch_axis) {
  std::vector<config_tensor> all;
  for (const auto& tensor : tensors) {
    auto dims = tensor.shape;
    if (has_batch_axis && !dims.empty()) dims.erase(dims.begin());
    all.push_back({.name = tensor.name, .type = tensor.type, .dims = std::move(dims)});
  }
  return all;
}

/// Why inputs and outputs of a model are not those of its config; empty if they are.
[[nodiscard]] std::string mismatch_of(const model_config& config,
                                      const std::vector<tensor_metadata>& inputs,
                                      const std::vector<tensor_metadata>& outputs) {
  auto config_inputs = config.inputs;
  auto config_outputs = config.outputs;
  if (config.sequences) {
    for (const auto& each : config.sequences->state) {
      config_inputs.push_back({.name = each.input, .type = each.type, .dims = each.dims});
      config_outputs.push_back({.name = each.output, .type = each.type, .dims = each.dims});
    }
  }
  const bool has_batch_axis = config.max_batch_size > 0;
  auto problem = mismatch_of(config_inputs, inputs, has_batch_axis, "input");
  if (problem.empty()) problem = mismatch_of(config_outputs, outputs, has_batch_axis, "output");
  return problem.empty() ? batch_problem_of(config, inputs) : problem;
}

[[noreturn]] void refuse_unknown(std::string_view model, std::string_view version) {
  throw request_error(request_status::not_found, "there is no " + displayed(model, version));
}

[[noreturn]] void refuse_unserved(std::string_view model, std::string_view version,
                                  const std::string& problem) {
  throw request_error(request_status::unavailable,
                      displayed(model, version) +
                          (problem.empty() ? std::string(" is being loaded") : ": " + problem));
}

}  // namespace

void model_catalog::load(const version_of_model& version, const repository_news& news,
                         orders& due) {
  const auto& config = *news.index->models.at(version.model).config;
  const auto& files = news.files.at({version.model, version.version});
  auto& state = models_[version.model].versions[version.version];
  state.is_leaving = false;
  if (state.loading) due.unloads.push_back(state.loading->handle);
  state.loading = nullptr;
  if (unloaded_.contains(version.model) || files.descriptors.empty()) {
    state.problem = files.descriptors.empty() ? files.problem : unloaded_problem;
    return;
  }
  state.loading = std::make_shared<loaded_version>();
  state.loading->handle = next_handle_++;
  state.loading->model = version.model;
  state.loading->version = version.version;
  state.loading->config = config;
  state.loading->files = files.descriptors;
  state.loading->statistics = state.statistics;
  due.loads.push_back(state.loading);
}

void model_catalog::load_missing(const std::string& name, const repository_news& news,
                                 orders& due) {
  const auto indexed = news.index->models.find(name);
  if (indexed == news.index->models.end()) return;
  for (const auto version : served_versions(indexed->second)) {
    const auto& state = models_[name].versions[version];
    const bool is_served = state.served && state.problem.empty();
    if (!is_served && !state.loading) load({name, version}, news, due);
    if (state.loading) state.loading->is_requested = true;
  }
}

model_catalog::orders model_catalog::apply(const repository_news& news,
                                           const std::vector<std::string>& requested) {
  orders due;
  const auto& changes = news.changes;
  const auto& index = *news.index;
  for (const auto& name : requested) unloaded_.erase(name);
  for (const auto& each : changes.loads) load(each, news, due);
  for (const auto& each : changes.replaces) load(each, news, due);
  for (const auto& each : changes.unloads) {
    const auto model = models_.find(each.model);
    if (model == models_.end()) continue;
    const auto state = model->second.versions.find(each.version);
    if (state == model->second.versions.end()) continue;
    state->second.is_leaving = true;
    if (auto content = std::exchange(state->second.loading, nullptr)) {
      due.unloads.push_back(content->handle);
    }
    if (!index.models.contains(each.model)) {
      if (state->second.served) due.unloads.push_back(state->second.served->handle);
      model->second.versions.erase(state);
      if (model->second.versions.empty()) models_.erase(model);
    } else if (unloaded_.contains(each.model)) {
      model->second.versions.erase(state);
    } else {
      const auto ended = end_leaving(model->second);
      due.unloads.insert(due.unloads.end(), ended.begin(), ended.end());
    }
  }
  for (const auto& name : requested) load_missing(name, news, due);
  for (const auto& [name, indexed] : index.models) {
    const auto model = models_.find(name);
    const bool is_required = indexed.config && indexed.config->is_required;
    if (model == models_.end() && !is_required) continue;
    models_[name].is_required = is_required;
  }
  for (const auto& name : changes.problems) take_problem(name, index);
  return due;
}

std::vector<std::uint32_t> model_catalog::unload(const std::string& name) {
  const auto found = models_.find(name);
  if (found == models_.end()) refuse_unknown(name, {});
  unloaded_.insert(name);
  std::vector<std::uint32_t> ended;
  for (auto& [version, state] : found->second.versions) {
    for (auto* const content : {&state.served, &state.loading}) {
      if (*content) ended.push_back((*content)->handle);
      *content = nullptr;
    }
    state.problem = unloaded_problem;
  }
  std::erase_if(found->second.versions, [](const auto& each) { return each.second.is_leaving; });
  return ended;
}

void model_catalog::take_problem(const std::string& name, const model_index& index) {
  const auto indexed = index.models.find(name);
  if (indexed != index.models.end()) {
    models_[name].problem = indexed->second.problem;
    return;
  }
  const auto model = models_.find(name);
  if (model != models_.end() && model->second.versions.empty()) models_.erase(model);
}

std::pair<model_catalog::model_state*, model_catalog::version_state*> model_catalog::find_content(
    std::uint32_t handle) {
  for (auto& [name, model] : models_) {
    for (auto& [version, state] : model.versions) {
      for (const auto& content : {state.loading, state.served}) {
        if (content && content->handle == handle) return {&model, &state};
      }
    }
  }
  return {};
}

std::vector<std::uint32_t> model_catalog::end_leaving(model_state& model) {
  bool is_served = false;
  for (const auto& [version, state] : model.versions) {
    if (state.loading) return {};
    is_served = is_served || (state.served && !state.is_leaving);
  }
  if (!is_served) return {};
  std::vector<std::uint32_t> ended;
  std::erase_if(model.versions, [&](const auto& each) {
    const auto& state = each.second;
    if (state.is_leaving && state.served) ended.push_back(state.served->handle);
    return state.is_leaving;
  });
  return ended;
}

std::vector<std::uint32_t> model_catalog::note_loaded(std::uint32_t handle,
                                                      std::vector<tensor_metadata> inputs,
                                                      std::vector<tensor_metadata> outputs) {
  const auto [model, state] = find_content(handle);
  if (state == nullptr || !state->loading || state->loading->handle != handle) return {};
  auto& content = *state->loading;
  auto problem = mismatch_of(content.config, inputs, outputs);
  if (!problem.empty()) return note_refused(handle, std::move(problem));
  narrow(inputs, content.config);
  content.input_numbers = number_names(inputs);
  content.output_numbers = number_names(outputs);
  content.inputs = std::move(inputs);
  content.outputs = std::move(outputs);
  const auto earlier = std::exchange(state->served, std::exchange(state->loading, nullptr));
  state->problem.clear();
  auto ended = end_leaving(*model);
  if (earlier) ended.push_back(earlier->handle);
  return ended;
}

bool model_catalog::serves(std::uint32_t handle) const {
  const auto contents = served();
  return std::any_of(contents.begin(), contents.end(),
                     [handle](const auto& each) { return each->handle == handle; });
}

std::vector<std::uint32_t> model_catalog::note_refused(std::uint32_t handle, std::string problem) {
  const auto [model, state] = find_content(handle);
  if (state == nullptr) return {};
  auto& content =
      state->loading && state->loading->handle == handle ? state->loading : state->served;
  content = nullptr;
  state->problem = std::move(problem);
  auto ended = end_leaving(*model);
  ended.push_back(handle);
  return ended;
}

std::vector<std::shared_ptr<loaded_version>> model_catalog::served() const {
  std::vector<std::shared_ptr<loaded_version>> contents;
  for (const auto& [name, model] : models_) {
    for (const auto& [version, state] : model.versions) {
      if (state.served) contents.push_back(state.served);
    }
  }
  return contents;
}

std::vector<std::shared_ptr<loaded_version>> model_catalog::loading() const {
  std::vector<std::shared_ptr<loaded_version>> contents;
  for (const auto& [name, model] : models_) {
    for (const auto& [version, state] : model.versions) {
      if (state.loading) contents.push_back(state.loading);
    }
  }
  return contents;
}

std::vector<std::shared_ptr<loaded_version>> model_catalog::wanted() const {
  auto contents = served();
  const auto others = loading();
  contents.insert(contents.end(), others.begin(), others.end());
  return contents;
}

std::shared_ptr<const loaded_version> model_catalog::content_of(std::uint32_t handle) const {
  const auto contents = wanted();
  const auto found = std::find_if(contents.begin(), contents.end(), [handle](const auto& content) {
    return content->handle == handle;
  });
  return found == contents.end() ? nullptr : *found;
}

std::shared_ptr<const loaded_version> model_catalog::find(std::string_view name,
                                                          std::string_view version) const {
  const auto found = models_.find(name);
  if (found == models_.end()) refuse_unknown(name, {});
  const auto& versions = found->second.versions;
  if (!version.empty()) {
    const auto number = version_number(version);
    const auto state = number ? versions.find(*number) : versions.end();
    if (state == versions.end()) refuse_unknown(name, version);
    if (!state->second.served) refuse_unserved(name, version, state->second.problem);
    return state->second.served;
  }
  std::string problem = found->second.problem;
  for (auto state = versions.rbegin(); state != versions.rend(); ++state) {
    if (state->second.served) return state->second.served;
    if (problem.empty()) problem = state->second.problem;
  }
  refuse_unserved(name, {}, problem);
}

model_metadata model_catalog::describe(std::string_view name, std::string_view version) const {
  const auto content = find(name, version);
  model_metadata metadata{.name = content->model,
                          .platform = platform_of(content->config),
                          .inputs = content->inputs,
                          .outputs = content->outputs};
  for (const auto& [number, state] : models_.find(name)->second.versions) {
    if (state.served) metadata.versions.push_back(std::to_string(number));
  }
  return metadata;
}

model_config model_catalog::configuration(std::string_view name, std::string_view version) const {
  const auto content = find(name, version);
  auto config = content->config;
  config.name = content->model;
  config.inputs = config_tensors(content->inputs, config.max_batch_size > 0);
  config.outputs = config_tensors(content->outputs, config.max_batch_size > 0);
  return config;
}

std::vector<repository_entry> model_catalog::index() const {
  std::vector<repository_entry> entries;
  for (const auto& [name, model] : models_) {
    if (model.versions.empty()) entries.push_back({.model = name, .reason = model.problem});
    for (const auto& [version, state] : model.versions) {
      entries.push_back({.model = name, .version = std::to_string(version)});
      auto& entry = entries.back();
      entry.state = state.served    ? serving_state::ready
                    : state.loading ? serving_state::loading
                                    : serving_state::unavailable;
      if (entry.state == serving_state::unavailable) entry.reason = state.problem;
    }
  }
  return entries;
}

std::optional<std::string> model_catalog::load_problem(const std::string& name) const {
  const auto found = models_.find(name);
  if (found == models_.end()) return "it is not in the repository any more";
  std::string problem = found->second.problem;
  for (const auto& [version, state] : found->second.versions) {
    if (state.loading) return std::nullopt;
    if (!problem.empty() || state.is_leaving || state.problem.empty()) continue;
    problem = "version " + std::to_string(version) + ": " + state.problem;
  }
  return problem;
}

std::vector<version_status> model_catalog::status() const {
  std::vector<version_status> all;
  for (const auto& [name, model] : models_) {
    for (const auto& [number, version] : model.versions) {
      const auto state = version.served    ? serving_state::ready
                         : version.loading ? serving_state::loading
                                           : serving_state::unavailable;
      all.push_back({.model = name,
                     .version = number,
                     .state = state,
                     .problem = version.problem.empty() ? model.problem : version.problem,
                     .statistics = version.statistics});
    }
    if (model.versions.empty()) all.push_back({.model = name, .problem = model.problem});
  }
  return all;
}

state_descriptor model_catalog::state_of(std::string_view name, std::string_view version) const {
  const auto content = find(name, version);
  state_descriptor state{.version = std::to_string(content->version), .content = content->handle};
  const auto& config = content->config;
  if (!config.sequences) return state;
  state.idle_timeout = config.sequences->idle_timeout;
  for (const auto& each : config.sequences->state) {
    auto shape = each.dims;
    if (config.max_batch_size > 0) shape.insert(shape.begin(), 1);
    state.tensors.push_back(
        {.input = each.input, .output = each.output, .type = each.type, .shape = std::move(shape)});
  }
  return state;
}

bool model_catalog::is_ready() const {
  return std::all_of(models_.begin(), models_.end(), [](const auto& each) {
    const auto& model = each.second;
    bool is_served = false;
    for (const auto& [version, state] : model.versions) {
      if (!state.served && state.loading && !state.loading->is_requested) return false;
      is_served = is_served || state.served;
    }
    return is_served || !model.is_required;
  });
}

}  // namespace sluice::service
