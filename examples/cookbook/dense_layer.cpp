// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <iostream>
#include <utility>
#include <vector>

using namespace sluice;

/// max(x · weightsᵀ + bias, 0), as a request.
tensor run_dense_layer(caf::actor_system& system, scoped_device& device, const tensor& x,
                       const tensor& weights, const tensor& bias) {
  return ask<tensor>(
      system, device.blas(),
      gemm{.a = x, .b = weights.transposed(), .bias = bias, .activation = activation::relu});
}

/// The same as a program with the input x.
program make_dense_layer(host_tensor weights, host_tensor bias) {
  program_builder p;
  const auto x = p.input("x");                               // f32, [n, inputs]
  const auto w = p.constant("weights", std::move(weights));  // f32, [outputs, inputs]
  const auto b = p.constant("bias", std::move(bias));        // f32, [outputs]
  const auto y =
      p.add("y", gemm{.a = x, .b = w.transposed(), .bias = b, .activation = activation::relu});
  return std::move(p).build({y});
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};

  const host_tensor x(std::vector<float>{1, 2}, {1, 2});
  const host_tensor weights(std::vector<float>{3, 4, -5, -6}, {2, 2});
  const host_tensor bias(std::vector<float>{0.5, 0.5});
  const auto put = [&](const host_tensor& values) {
    return ask<tensor>(system, device.actor(), upload{.values = values});
  };
  const auto y = run_dense_layer(system, device, put(x), put(weights), put(bias));
  const auto once = ask<host_tensor>(system, device.actor(), download{.x = y});
  const auto again = ask<host_tensors>(system, device.programs(),
                                       run_to_host{make_dense_layer(weights, bias), {x}});
  for (const float value : once.values<float>()) std::cout << value << '\n';           // 11.5 0
  for (const float value : again.front().values<float>()) std::cout << value << '\n';  // 11.5 0
}
