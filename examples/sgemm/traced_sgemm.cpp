// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <chrono>
#include <iostream>

/// Says of every launch what it was, where it ran, how long it waited and how long it took.
class launch_log final : public sluice::kernel_trace {
  bool wants_timestamps() const noexcept override { return true; }
  void after_timestamps(const sluice::kernel_info& launch,
                        const sluice::kernel_times& times) override {
    if (!times.execution()) return;  // no timestamps: the device was lost
    using microseconds = std::chrono::duration<double, std::micro>;
    std::cout << launch.library << ' ' << launch.operation << " on " << to_string(launch.device)
              << " waited " << microseconds(*times.queueing()).count() << " µs and took "
              << microseconds(*times.execution()).count() << " µs\n";
  }
};

int main() {
  caf::actor_system_config config;
  sluice::configure(config);
  caf::actor_system system{config};
  sluice::scoped_device device{system, "auto", std::make_shared<launch_log>()};

  using sluice::extents, sluice::tensor;
  const auto ones = sluice::ask<tensor>(system, device.actor(),
                                        sluice::fill{.value = 1, .shape = extents{64, 64}});
  for (int i = 0; i < 3; ++i) {
    sluice::ask<tensor>(system, device.blas(), sluice::gemm{.a = ones, .b = ones});
  }
}
