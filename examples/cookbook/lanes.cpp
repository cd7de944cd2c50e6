// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <iostream>

using namespace sluice;

/// Sends many products that are not urgent.
void flood(caf::event_based_actor* self, const blas_actor& blas, const tensor& a) {
  for (int i = 0; i < 200; ++i) {
    request(self, blas, caf::infinite, gemm{.a = a, .b = a},
            request_options{.priority = request_priority::low})
        .then([](const tensor&) {});
  }
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system, "auto", nullptr, {.lanes_per_actor = 2, .high_priority_lanes = 1}};

  const auto a = ask<tensor>(system, device.actor(), fill{.value = 1, .shape = extents{64, 64}});
  for (int i = 0; i < 4; ++i) system.spawn(flood, device.blas(), a);

  const auto c = ask<tensor>(system, device.blas(), gemm{.a = a, .b = a},
                             request_options{.priority = request_priority::high});
  const auto status = ask<queue_status>(system, device.blas(), get_queue_status{});
  std::cout << to_string(c.shape()) << ", " << status.requests << " requests wait\n";
}
