// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <iostream>

int main() {
  caf::actor_system_config config;
  sluice::configure(config);
  caf::actor_system system{config};
  sluice::scoped_device device{system};  // the first GPU, else the host

  using matrix = sluice::gpu_ref<float>;
  const auto a =
      sluice::ask<matrix>(system, device.actor(), sluice::upload<float>{.values = {1, 2, 3, 4}});
  const auto b =
      sluice::ask<matrix>(system, device.actor(), sluice::upload<float>{.values = {5, 6, 7, 8}});
  const auto c = sluice::ask<matrix>(system, device.blas(),
                                     sluice::sgemm{.m = 2, .n = 2, .k = 2, .a = a, .b = b});

  const auto values =
      sluice::ask<std::vector<float>>(system, device.actor(), sluice::download<float>{c});
  for (const float value : values) std::cout << value << '\n';  // 19 22 43 50
}
