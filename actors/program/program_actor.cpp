// SPDX-License-Identifier: Apache-2.0

#include <sluice/actors/program.hpp>
#include <sluice/actors/spawn_operations.hpp>

namespace sluice {

program_actor spawn_programs(caf::actor_system& system, std::shared_ptr<device_service> service,
                             std::shared_ptr<kernel_trace> trace) {
  return spawn_operations<run, run_to_host, prepare>(system, "sluice.programs", std::move(service),
                                                     std::move(trace));
}

}  // namespace sluice
