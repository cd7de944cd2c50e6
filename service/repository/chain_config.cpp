// SPDX-License-Identifier: Apache-2.0
#include "service/repository/chain_config.hpp"

#include "service/repository/key_reader.hpp"
#include "service/repository/model_config.hpp"
#include "service/repository/printable.hpp"

#include <limits>
#include <utility>

namespace sluice::service {
namespace {

std::map<std::string, std::string> tensor_names_of(key_reader& step, const char* key) {
  auto names = step.texts(key);
  for (const auto& [tensor, name] : names) {
    if (name.empty()) throw config_error(step.path_of(key) + "." + printable(tensor) + " is empty");
  }
  return names;
}

config_step step_of(key_reader& table) {
  config_step step{.model = table.text("model_name")};
  if (step.model.empty()) throw config_error(table.path_of("model_name") + " is empty");
  const auto version =
      table.integer("model_version", -1, -1, std::numeric_limits<std::int64_t>::max());
  if (version == 0) {
    throw config_error(table.path_of("model_version") +
                       " must be a version, or -1 for the highest");
  }
  if (version > 0) step.version = static_cast<std::uint64_t>(version);
  step.inputs = tensor_names_of(table, "input_map");
  step.outputs = tensor_names_of(table, "output_map");
  if (step.outputs.empty()) throw config_error(table.path_of("output_map") + " is missing");
  table.finish();
  return step;
}

}  // namespace

std::vector<config_step> read_chain(key_reader& config) {
  std::vector<config_step> steps;
  if (!config.has("ensemble_scheduling")) return steps;
  auto table = config.table("ensemble_scheduling");
  for (auto& step : table.tables("step")) {
    if (steps.size() == max_chain_steps) {
      throw config_error(table.path_of("step") + " has more than " +
                         std::to_string(max_chain_steps) + " steps");
    }
    steps.push_back(step_of(step));
  }
  if (steps.empty()) throw config_error(table.path_of("step") + " is missing");
  table.finish();
  for (const char* key : {"sequence_batching", "dynamic_batching"}) {
    if (config.has(key)) throw config_error(std::string(key) + " contradicts ensemble_scheduling");
  }
  for (const char* key : {"input", "output"}) {
    if (!config.has(key))
      throw config_error(std::string(key) + " is missing, as the model is a chain");
  }
  return steps;
}

}  // namespace sluice::service
