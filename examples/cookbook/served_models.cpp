// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>
#include <sluice/operations/program_source.hpp>

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

using namespace sluice;

/// x · weightsᵀ, with names.
std::shared_ptr<const model_source> make_layer(host_tensor weights) {
  program_builder p;
  const auto x = p.input("x");
  const auto w = p.constant("weights", std::move(weights));
  const auto y = p.add("y", gemm{.a = x, .b = w.transposed()});
  return std::make_shared<program_source>(std::move(p).build({y}),
                                          std::vector<model_value>{{.name = "x"}},
                                          std::vector<model_value>{{.name = "y"}});
}

host_tensor run_layer(caf::actor_system& system, const model_actor& models, const host_tensor& x) {
  return ask<host_tensors>(system, models, run_model_to_host{.name = "layer", .inputs = {{"x", x}}})
      .front();
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};

  const auto models = device.models();
  const host_tensor x(std::vector<float>{1, 2}, {1, 2});
  for (const float weight : {3.0F, 4.0F}) {
    // The second one replaces the first.
    const host_tensor weights(std::vector<float>{weight, 10}, {1, 2});
    (void)ask<model_description>(system, models,
                                 load_model{.name = "layer", .source = make_layer(weights)});
    const auto y = run_layer(system, models, x);
    std::cout << y.values<float>()[0] << '\n';  // 23, then 24
  }
}
