// SPDX-License-Identifier: Apache-2.0

#include <sluice/actors/rng.hpp>
#include <sluice/actors/spawn_operations.hpp>

namespace sluice {

rng_actor spawn_rng(caf::actor_system& system, std::shared_ptr<device_service> service,
                    std::shared_ptr<kernel_trace> trace) {
  return spawn_operations<random_bits, random_uniform, random_normal>(
      system, "sluice.rng", std::move(service), std::move(trace),
      {&descriptor_of(operation_type<random_bits>{})});
}

}  // namespace sluice
