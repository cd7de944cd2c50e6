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

  const host_tensor x(std::vector<float>{1, 2, 3, 4}, {2, 2});
  const host_tensor y(std::vector<float>{5, 6, 7, 8}, {2, 2});
  auto a = ask<tensor>(system, device.actor(), upload{.values = x});
  auto b = ask<tensor>(system, device.actor(), upload{.values = y});
  auto c = ask<tensor>(system, device.blas(), gemm{.a = a, .b = b});
  auto product = ask<host_tensor>(system, device.actor(), download{.x = c}).to_vector<float>();

  for (float element : product) std::printf("%g ", static_cast<double>(element));
  std::puts("");
  return product == std::vector<float>{19, 22, 43, 50} ? 0 : 1;
}
