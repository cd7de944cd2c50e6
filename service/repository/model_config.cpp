// SPDX-License-Identifier: Apache-2.0
#include "service/repository/model_config.hpp"

#include "service/protocol/tensor_size.hpp"
#include "service/repository/config_text.hpp"
#include "service/repository/key_reader.hpp"
#include "service/repository/printable.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

namespace sluice::service {
namespace {

constexpr std::int64_t max_lanes = 64;
constexpr std::int64_t max_extent = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t max_warm_up_runs = 1000;
constexpr std::int64_t max_idle_us = 31'536'000'000'000;  // a year
constexpr std::size_t max_rank = 16;
/// Of one input of a warm-up, batch included.
constexpr std::int64_t max_warm_up_bytes = std::int64_t{1} << 34;
constexpr std::uint64_t max_state_bytes = std::uint64_t{1} << 30;

datatype type_of(key_reader& table) {
  const std::string name = table.text("data_type");
  constexpr std::string_view prefix = "TYPE_";
  if (name.starts_with(prefix)) {
    if (const auto type = datatype_from(std::string_view(name).substr(prefix.size()))) return *type;
  }
  throw config_error(table.path_of("data_type") + " must be TYPE_FP32 or another type of numbers");
}

std::vector<std::int64_t> dims_of(key_reader& table, std::int64_t least) {
  auto dims = table.integers("dims", least, max_extent);
  if (dims.size() > max_rank)
    throw config_error(table.path_of("dims") + " has more than " + std::to_string(max_rank) +
                       " extents");
  if (std::find(dims.begin(), dims.end(), 0) != dims.end())
    throw config_error(table.path_of("dims") + " has an extent of 0");
  return dims;
}

std::vector<config_tensor> tensors_of(key_reader& config, const char* key) {
  std::vector<config_tensor> tensors;
  std::set<std::string> names;
  for (auto& table : config.tables(key)) {
    config_tensor tensor{.name = table.text("name")};
    if (tensor.name.empty()) throw config_error(table.path_of("name") + " is empty");
    if (!names.insert(tensor.name).second)
      throw config_error(table.path_of("name") + " occurs twice");
    tensor.type = type_of(table);
    tensor.dims = dims_of(table, -1);
    table.finish();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

/// Batches form by themselves, so the keys are hints that change nothing.
void check_batching(key_reader& config) {
  if (!config.has("dynamic_batching")) return;
  auto table = config.table("dynamic_batching");
  (void)table.integers("preferred_batch_size", 1, max_extent);
  (void)table.integer("max_queue_delay_microseconds", 0, 0,
                      std::numeric_limits<std::int64_t>::max());
  table.finish();
}

std::int64_t lanes_of(key_reader& config) {
  auto groups = config.tables("instance_group");
  if (groups.empty()) return 1;
  if (groups.size() > 1) throw config_error("instance_group must not have more than one group");
  auto& group = groups.front();
  if (group.has("kind") && group.text("kind") != "KIND_AUTO")
    throw config_error(group.path_of("kind") +
                       " must be KIND_AUTO, because the workers of the server choose the devices");
  const auto count = group.integer("count", 1, 1, max_lanes);
  group.finish();
  return count;
}

version_policy versions_of(key_reader& config) {
  version_policy policy;
  if (!config.has("version_policy")) return policy;
  auto table = config.table("version_policy");
  if (int{table.has("latest")} + int{table.has("all")} + int{table.has("specific")} != 1)
    throw config_error("version_policy must have one of the keys latest, all and specific");
  const char* key = table.has("latest") ? "latest" : table.has("all") ? "all" : "specific";
  auto choice = table.table(key);
  if (table.has("latest")) {
    policy.latest_count =
        static_cast<std::uint64_t>(choice.integer("num_versions", 1, 1, max_extent));
  } else if (table.has("all")) {
    policy.kind = version_policy::choice::all;
  } else {
    policy.kind = version_policy::choice::specific;
    const auto versions = choice.integers("versions", 1, std::numeric_limits<std::int64_t>::max());
    const std::set<std::int64_t> ascending(versions.begin(), versions.end());
    if (ascending.empty()) throw config_error(choice.path_of("versions") + " is empty");
    policy.versions.assign(ascending.begin(), ascending.end());
  }
  choice.finish();
  table.finish();
  return policy;
}

void check_size(const warm_up& run, const warm_up_input& input, const std::string& path) {
  auto bytes = static_cast<std::int64_t>(size_of(input.tensor.type)) *
               std::max<std::int64_t>(run.batch_size, 1);
  for (const auto extent : input.tensor.dims) {
    if (bytes > max_warm_up_bytes / extent) throw config_error(path + " has more than 16 GiB");
    bytes *= extent;
  }
}

std::vector<warm_up> warm_ups_of(key_reader& config, std::int64_t max_batch_size) {
  std::vector<warm_up> warm_ups;
  for (auto& table : config.tables("model_warmup")) {
    warm_up run{.name = table.text("name", "")};
    // Triton's 0, the default, stands for 1 in both keys.
    run.batch_size = table.integer("batch_size", 0, 0, std::max<std::int64_t>(max_batch_size, 1));
    run.batch_size = max_batch_size == 0 ? 0 : std::max<std::int64_t>(run.batch_size, 1);
    run.count = std::max<std::int64_t>(table.integer("count", 0, 0, max_warm_up_runs), 1);
    for (auto& [name, values] : table.named_tables("inputs")) {
      warm_up_input input{.tensor = {.name = name}};
      input.tensor.type = type_of(values);
      input.tensor.dims = dims_of(values, 1);
      input.is_random = values.boolean("random_data", false);
      if (values.boolean("zero_data", !input.is_random) == input.is_random)
        throw config_error(values.path_of("zero_data") + " contradicts random_data");
      values.finish();
      check_size(run, input, values.path());
      run.inputs.push_back(std::move(input));
    }
    if (run.inputs.empty()) throw config_error(table.path_of("inputs") + " is missing");
    table.finish();
    warm_ups.push_back(std::move(run));
  }
  return warm_ups;
}

/// A name that no other tensor of the state has.
std::string state_name_of(key_reader& table, const char* key, std::set<std::string>& names) {
  auto name = table.text(key);
  if (name.empty()) throw config_error(table.path_of(key) + " is empty");
  if (!names.insert(name).second) throw config_error(table.path_of(key) + " occurs twice");
  return name;
}

std::optional<sequence_config> sequences_of(key_reader& config) {
  if (!config.has("sequence_batching")) return std::nullopt;
  auto table = config.table("sequence_batching");
  sequence_config sequences;
  sequences.idle_timeout = std::chrono::microseconds(table.integer(
      "max_sequence_idle_microseconds", sequences.idle_timeout.count(), 1, max_idle_us));
  std::set<std::string> inputs;
  std::set<std::string> outputs;
  std::uint64_t bytes = 0;
  for (auto& entry : table.tables("state")) {
    config_state state;
    state.input = state_name_of(entry, "input_name", inputs);
    state.output = state_name_of(entry, "output_name", outputs);
    state.type = type_of(entry);
    state.dims = dims_of(entry, 1);
    entry.finish();
    const auto added = tensor_bytes(state.dims, state.type);
    if (!added || *added > max_state_bytes - bytes)
      throw config_error(table.path_of("state") + " has more than 1 GiB");
    bytes += *added;
    sequences.state.push_back(std::move(state));
  }
  if (sequences.state.empty()) throw config_error(table.path_of("state") + " is missing");
  table.finish();
  return sequences;
}

void check_backend(key_reader& config) {
  const auto backend = config.text("backend", "sluice");
  if (backend != "sluice" && backend != "onnxruntime")
    throw config_error("backend must be sluice or onnxruntime");
}

void check_platform(key_reader& config) {
  const auto platform = config.text("platform", onnx_platform);
  if (platform != onnx_platform && platform != "onnxruntime_onnx")
    throw config_error("platform must be onnx_sluice, onnxruntime_onnx or, for a chain, ensemble");
}

/// A chain has no backend: its steps are models.
void check_chain(key_reader& config) {
  if (config.text("platform", "") != chain_platform)
    throw config_error("platform must be ensemble, because of ensemble_scheduling");
  if (!config.text("backend", "").empty())
    throw config_error("backend contradicts ensemble_scheduling");
}

precision precision_of(key_reader& parameters) {
  const std::string name = parameters.text("precision", "original");
  for (const auto value : {precision::original, precision::tf32, precision::f16, precision::bf16})
    if (name == to_string(value)) return value;
  throw config_error(parameters.path_of("precision") + " must be original, tf32, f16 or bf16");
}

model_config config_of(const nlohmann::json& tree) {
  key_reader table(tree, "");
  model_config config{.name = table.text("name", "")};
  config.steps = read_chain(table);
  if (!config.steps.empty()) {
    check_chain(table);
  } else if (table.text("platform", "") == chain_platform) {
    throw config_error("ensemble_scheduling is missing, as platform is ensemble");
  } else {
    check_platform(table);
    check_backend(table);
  }
  config.max_batch_size = table.integer("max_batch_size", 0, 0, max_extent);
  config.lanes = lanes_of(table);
  config.versions = versions_of(table);
  config.inputs = tensors_of(table, "input");
  config.outputs = tensors_of(table, "output");
  config.warm_ups = warm_ups_of(table, config.max_batch_size);
  config.sequences = sequences_of(table);
  check_batching(table);
  if (table.has("parameters")) {
    auto parameters = table.table("parameters");
    config.precision = precision_of(parameters);
    config.is_required = parameters.boolean("required", false);
    parameters.finish();
  }
  table.finish();
  return config;
}

}  // namespace

const char* to_string(precision precision) noexcept {
  switch (precision) {
    case precision::original:
      return "original";
    case precision::tf32:
      return "tf32";
    case precision::f16:
      return "f16";
    case precision::bf16:
      return "bf16";
  }
  return "original";
}

model_config parse_config(std::string_view text, config_form form) {
  if (text.size() > max_config_bytes) throw config_error("has more than 64 KiB");
  return config_of(form == config_form::toml ? parse_toml(text) : parse_pbtxt(text));
}

std::vector<std::uint64_t> chosen_versions(const version_policy& policy,
                                           const std::vector<std::uint64_t>& available) {
  switch (policy.kind) {
    case version_policy::choice::all:
      return available;
    case version_policy::choice::specific: {
      std::vector<std::uint64_t> chosen;
      std::set_intersection(available.begin(), available.end(), policy.versions.begin(),
                            policy.versions.end(), std::back_inserter(chosen));
      return chosen;
    }
    case version_policy::choice::latest:
      break;
  }
  const auto count = std::min<std::uint64_t>(policy.latest_count, available.size());
  return {available.end() - static_cast<std::ptrdiff_t>(count), available.end()};
}

}  // namespace sluice::service
