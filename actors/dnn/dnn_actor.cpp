// SPDX-License-Identifier: Apache-2.0

#include <sluice/actors/dnn.hpp>
#include <sluice/actors/spawn_operations.hpp>

#include <string>

namespace sluice {

dnn_actor spawn_dnn(caf::actor_system& system, std::shared_ptr<device_service> service,
                    std::shared_ptr<kernel_trace> trace) {
  if (service == nullptr) throw invalid_argument("service", "is null");
  const auto& descriptor = descriptor_of(operation_type<conv2d>{});
  const auto kind = service->runtime().device().id().kind;
  if (!descriptor.makes_plans(kind)) {
    throw error(errc::unsupported, "dnn: this build has no " +
                                       std::string(descriptor.library(kind)) +
                                       ", which was not found when it was configured");
  }
  return spawn_operations<conv2d>(system, "sluice.dnn", std::move(service), std::move(trace),
                                  {&descriptor});
}

}  // namespace sluice
