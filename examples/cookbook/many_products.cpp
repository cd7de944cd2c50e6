// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <iostream>
#include <utility>

using namespace sluice;

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};

  const auto a = ask<tensor>(system, device.actor(), fill{.value = 1, .shape = extents{32, 32}});
  bulk products;
  for (int i = 0; i < 100; ++i) products.add(gemm{.a = a, .b = a});
  const auto answer = ask<bulk_results>(system, device.blas(), std::move(products));
  for (const auto& [value, failure] : answer.results) {
    if (failure) std::cerr << failure->what() << '\n';
  }
  std::cout << answer.results.size() << " products\n";
}
