// SPDX-License-Identifier: Apache-2.0
// Serves a model of ONNX by name, and runs it once with inputs of zeros: model_service network.onnx
#include <sluice/actors/device.hpp>
#include <sluice/models/model.hpp>

#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

/// Zeros for an input. An extent that the model leaves open is 1.
host_tensor zeros(const model_value& input) {
  extents shape;
  for (const auto& dimension : input.shape.value_or(std::vector<model_dimension>())) {
    shape.push_back(dimension.extent.value_or(1));
  }
  host_tensor x(input.type.value_or(element_type::f32), shape);
  std::memset(x.data().get(), 0, x.bytes());
  return x;
}

void serve(caf::actor_system& system, scoped_device& device, const std::string& path) {
  const auto models = device.models();
  const auto network = ask<model_description>(
      system, models,
      load_model{.name = "network", .source = std::make_shared<model>(model::open(path))});

  std::map<std::string, run_input> inputs;
  for (const auto& input : network.inputs) inputs.emplace(input.name, zeros(input));
  const auto results = ask<host_tensors>(
      system, models, run_model_to_host{.name = "network", .inputs = std::move(inputs)});
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::cout << network.outputs[i].name << ' ' << to_string(results[i].shape()) << '\n';
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    caf::actor_system_config config;
    configure(config);
    caf::actor_system system{config};
    scoped_device device{system};
    if (count == 2) serve(system, device, arguments[1]);
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
