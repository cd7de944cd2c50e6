// SPDX-License-Identifier: Apache-2.0
#include "service/repository/chain_steps.hpp"

#include "service/repository/printable.hpp"

#include <stdexcept>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

/// Why a model cannot be a step.
class step_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The config of the model cannot be read.
class unknown_step : public step_error {
 public:
  using step_error::step_error;
};

step_file file_of(const config_step& step, const model_index& index) {
  const auto found = index.models.find(step.model);
  if (found == index.models.end()) throw step_error("there is no such model");
  const auto& model = found->second;
  if (!model.config) throw unknown_step(model.problem);
  if (!model.config->steps.empty()) throw step_error("a chain cannot be a step of a chain");
  if (model.config->sequences) throw step_error("a model with a state cannot be a step of a chain");
  auto version = step.version;
  if (!version) {
    const auto served = served_versions(model);
    if (served.empty()) throw step_error(model.problem);
    version = served.back();
  }
  const auto content = model.versions.find(*version);
  const auto name = "version " + std::to_string(*version);
  if (content == model.versions.end()) throw step_error("there is no " + name);
  if (!content->second.file) throw step_error(name + ": " + content->second.problem);
  return {.model = step.model,
          .version = *version,
          .file = *content->second.file,
          .named_file = model.named_file};
}

void find_steps(const model_index& index, indexed_model& chain) {
  const auto& config = *chain.config;
  std::vector<step_file> steps;
  for (std::size_t i = 0; i < config.steps.size(); ++i) {
    try {
      steps.push_back(file_of(config.steps[i], index));
    } catch (const step_error& e) {
      chain.problem = "step '" + step_name(i, printable(config.steps[i].model)) + "': " + e.what();
      if (dynamic_cast<const unknown_step*>(&e) != nullptr) chain.config.reset();
      return;
    }
  }
  for (auto& [number, version] : chain.versions) {
    if (version.problem.empty()) version.steps = steps;
  }
  if (served_versions(chain).empty()) chain.problem = "there is no version that can be served";
}

}  // namespace

std::string step_name(std::size_t number, const std::string& model) {
  return std::to_string(number) + " (" + model + ")";
}

void find_steps(model_index& index) {
  for (auto& [name, model] : index.models) {
    if (model.config && !model.config->steps.empty()) find_steps(index, model);
  }
}

}  // namespace sluice::service
