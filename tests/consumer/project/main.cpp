// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>
#include <sluice/version.hpp>

#include <caf/all.hpp>

#include <cstdio>
#include <vector>

static_assert(sluice::version == PACKAGE_VERSION);

// Multiplies two matrices by a message to the blas actor of the host device.
int main() {
  using namespace sluice;
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system, "host:0"};

  auto a = ask<gpu_ref<float>>(system, device.actor(), upload<float>{.values = {1, 2, 3, 4}});
  auto b = ask<gpu_ref<float>>(system, device.actor(), upload<float>{.values = {5, 6, 7, 8}});
  auto c =
      ask<gpu_ref<float>>(system, device.blas(), sgemm{.m = 2, .n = 2, .k = 2, .a = a, .b = b});
  auto product = ask<std::vector<float>>(system, device.actor(), download<float>{.source = c});

  for (float element : product) std::printf("%g ", static_cast<double>(element));
  std::puts("");
  return product == std::vector<float>{19, 22, 43, 50} ? 0 : 1;
}
