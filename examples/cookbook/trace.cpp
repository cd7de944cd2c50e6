// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>
#include <sluice/envelope/chrome_trace.hpp>

#include <iostream>
#include <memory>

using namespace sluice;

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  const auto trace = std::make_shared<chrome_trace>(
      chrome_trace_options{.capacity = 10'000, .full = when_full::overwrite_oldest});
  scoped_device device{system, "auto", trace};

  const auto a = ask<tensor>(system, device.actor(), fill{.value = 1, .shape = extents{64, 64}});
  ask<tensor>(system, device.blas(), gemm{.a = a, .b = a}, request_options{.tag = "square"});
  std::cout << trace->json();
}
