// SPDX-License-Identifier: Apache-2.0
#include "service/repository/config_json.hpp"

#include <nlohmann/json.hpp>

#include <string_view>

namespace sluice::service {
namespace {

using json = nlohmann::ordered_json;

/// The name of a type in a config.
[[nodiscard]] std::string type_name(datatype type) {
  return "TYPE_" + std::string(to_string(type));
}

[[nodiscard]] json tensors_json(const std::vector<config_tensor>& tensors) {
  auto list = json::array();
  for (const auto& tensor : tensors) {
    list.push_back(
        {{"name", tensor.name}, {"data_type", type_name(tensor.type)}, {"dims", tensor.dims}});
  }
  return list;
}

[[nodiscard]] json policy_json(const version_policy& policy) {
  switch (policy.kind) {
    case version_policy::choice::all:
      return {{"all", json::object()}};
    case version_policy::choice::specific:
      return {{"specific", {{"versions", policy.versions}}}};
    case version_policy::choice::latest:
      break;
  }
  return {{"latest", {{"num_versions", policy.latest_count}}}};
}

[[nodiscard]] json warm_ups_json(const std::vector<warm_up>& warm_ups) {
  auto list = json::array();
  for (const auto& run : warm_ups) {
    auto inputs = json::object();
    for (const auto& input : run.inputs) {
      inputs[input.tensor.name] = {{"data_type", type_name(input.tensor.type)},
                                   {"dims", input.tensor.dims},
                                   {input.is_random ? "random_data" : "zero_data", true}};
    }
    list.push_back({{"name", run.name},
                    {"batch_size", run.batch_size},
                    {"inputs", std::move(inputs)},
                    {"count", run.count}});
  }
  return list;
}

[[nodiscard]] json sequences_json(const sequence_config& sequences) {
  auto state = json::array();
  for (const auto& each : sequences.state) {
    state.push_back({{"input_name", each.input},
                     {"output_name", each.output},
                     {"data_type", type_name(each.type)},
                     {"dims", each.dims}});
  }
  return {{"max_sequence_idle_microseconds", sequences.idle_timeout.count()},
          {"state", std::move(state)}};
}

[[nodiscard]] json chain_json(const std::vector<config_step>& steps) {
  auto list = json::array();
  for (const auto& step : steps) {
    list.push_back({{"model_name", step.model},
                    {"model_version", step.version ? json(*step.version) : json(-1)},
                    {"input_map", step.inputs},
                    {"output_map", step.outputs}});
  }
  return {{"step", std::move(list)}};
}

}  // namespace

std::string config_json(const model_config& config) {
  const bool is_chain = !config.steps.empty();
  json text{{"name", config.name},
            {"platform", platform_of(config)},
            {"backend", is_chain ? "" : "sluice"},
            {"version_policy", policy_json(config.versions)},
            {"max_batch_size", config.max_batch_size},
            {"input", tensors_json(config.inputs)},
            {"output", tensors_json(config.outputs)}};
  text["instance_group"] = json::array({{{"kind", "KIND_AUTO"}, {"count", config.lanes}}});
  text["parameters"] = {{"precision", {{"string_value", to_string(config.precision)}}},
                        {"required", {{"string_value", config.is_required ? "true" : "false"}}}};
  if (!config.warm_ups.empty()) text["model_warmup"] = warm_ups_json(config.warm_ups);
  if (config.sequences) text["sequence_batching"] = sequences_json(*config.sequences);
  if (is_chain) text["ensemble_scheduling"] = chain_json(config.steps);
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace sluice::service
