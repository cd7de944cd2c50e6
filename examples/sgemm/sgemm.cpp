// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <iostream>
#include <utility>
#include <vector>

int main() {
  caf::actor_system_config config;
  sluice::configure(config);
  caf::actor_system system{config};
  sluice::scoped_device device{system};  // the first GPU, else the host

  using namespace sluice;
  const auto put = [&](std::vector<float> values) {
    return ask<tensor>(system, device.actor(), upload{.values = {std::move(values), {2, 2}}});
  };
  const auto a = put({1, 2, 3, 4});
  const auto b = put({5, 6, 7, 8});
  const auto c = ask<tensor>(system, device.blas(), gemm{.a = a, .b = b});

  const auto product = ask<host_tensor>(system, device.actor(), download{.x = c});
  for (const float value : product.values<float>()) std::cout << value << '\n';  // 19 22 43 50
}
