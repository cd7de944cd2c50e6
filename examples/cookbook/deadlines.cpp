// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <chrono>
#include <iostream>

using namespace sluice;

/// Sends a product with a deadline, and another one that it cancels.
void client(caf::event_based_actor* self, const blas_actor& blas, const tensor& a) {
  using namespace std::chrono_literals;
  const auto finished = [](const tensor&) {
    std::cout << "finished\n";
  };
  const auto failed = [self](const caf::error& why) {
    const auto known = from_caf_error(why);
    if (known && known->code() == errc::deadline_exceeded) {
      std::cout << "too late\n";
    } else if (known && known->code() == errc::cancelled) {
      std::cout << "cancelled\n";
    } else {
      std::cerr << describe(self->system(), why) << '\n';
    }
  };
  request(self, blas, caf::infinite, gemm{.a = a, .b = a},
          request_options{.deadline = deadline_after(20ms)})
      .then(finished, failed);
  request(self, blas, caf::infinite, gemm{.a = a, .b = a}, request_options{.id = 7})
      .then(finished, failed);
  send(self, blas, cancel_request{.id = 7});
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};

  const auto a = ask<tensor>(system, device.actor(), fill{.value = 1, .shape = extents{256, 256}});
  caf::scoped_actor self{system};
  self->wait_for(system.spawn(client, device.blas(), a));
}
