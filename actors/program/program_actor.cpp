// SPDX-License-Identifier: Apache-2.0
#include "actors/models/model_run.hpp"

#include <sluice/actors/program.hpp>
#include <sluice/actors/spawn_operations.hpp>

namespace sluice {

program_actor spawn_programs(caf::actor_system& system, std::shared_ptr<device_service> service,
                             std::shared_ptr<kernel_trace> trace) {
  using detail::request_type_of;
  return caf::actor_cast<program_actor>(detail::spawn_lanes(
      system, "sluice.programs", service, trace, {},
      {request_type_of<run>(), request_type_of<run_to_host>(), request_type_of<prepare>(),
       request_type_of<detail::model_run>(), request_type_of<detail::model_run_to_host>()}));
}

}  // namespace sluice
