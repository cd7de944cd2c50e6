// SPDX-License-Identifier: Apache-2.0
#include "service/worker/load_source.hpp"

#include <sluice/models/model_chain.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/extents.hpp>

#include <utility>

namespace sluice::service {
namespace {

/// Refuses a model with a node that sluice cannot compute for any inputs. What else it cannot
/// compute depends on the shapes of a request.
/// @throws error with the node
void check_nodes(const model& source) {
  std::map<std::string, tensor_spec> specs;
  for (const auto& input : source.inputs()) {
    if (!input.type || !input.shape) return;
    extents shape;
    for (const auto& dimension : *input.shape) shape.push_back(dimension.extent.value_or(1));
    specs.emplace(input.name, tensor_spec::row_major(*input.type, shape));
  }
  for (const auto& refusal : source.refusals(specs)) {
    if (!refusal.is_inherent) continue;
    throw error(refusal.code,
                "node '" + refusal.node + "' (" + refusal.operator_name + "): " + refusal.reason);
  }
}

/// Reads a file. `label` precedes the text of an error, which has no path: that is no concern of
/// clients.
model open_file(const std::string& path, const std::string& label) {
  try {
    auto opened = model::open(path);
    check_nodes(opened);
    return opened;
  } catch (...) {
    const auto failure = current_error();
    std::string text = failure.what();
    if (const auto start = text.find(path); start != std::string::npos) {
      text.replace(start, path.size(), "model.onnx");
    }
    throw error(failure.code(), label + text);
  }
}

}  // namespace

load_source parse_source(const nlohmann::json& source) {
  if (source.contains("path")) return {.path = source.at("path").get<std::string>()};
  using names = std::vector<std::string>;
  using name_map = std::map<std::string, std::string>;
  load_source chain{.inputs = source.at("inputs").get<names>(),
                    .outputs = source.at("outputs").get<names>()};
  for (const auto& step : source.at("steps")) {
    chain.steps.push_back({.name = step.at("name").get<std::string>(),
                           .path = step.at("path").get<std::string>(),
                           .inputs = step.at("inputs").get<name_map>(),
                           .outputs = step.at("outputs").get<name_map>()});
  }
  return chain;
}

model open_source(const load_source& source, const std::string& name) {
  if (!source.path.empty()) return open_file(source.path, "");
  std::map<std::string, model> models;
  model_chain chain{.name = name, .inputs = source.inputs, .outputs = source.outputs};
  for (const auto& step : source.steps) {
    auto known = models.find(step.path);
    if (known == models.end()) {
      known = models.emplace(step.path, open_file(step.path, "step '" + step.name + "': ")).first;
    }
    chain.steps.push_back(
        {.name = step.name, .what = known->second, .inputs = step.inputs, .outputs = step.outputs});
  }
  return model::chain(chain);
}

}  // namespace sluice::service
