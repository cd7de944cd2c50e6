// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_actor.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/dnn.hpp>

#include <memory>

namespace sluice {

/// The library actor for neural-network operations: cuDNN on a GPU, oneDNN on the host.
using dnn_actor = operation_actor<conv2d>;

/// Starts a dnn actor with lanes of its own on `service`
/// (`device_service_options::lanes_per_actor`), each with a thread of its own.
/// @throws error `unsupported` if this build has no dnn library for the device
/// @throws error `library_failure`, `out_of_memory`, `over_budget`, `shutting_down`, `device_lost`
[[nodiscard]] SLUICE_EXPORT dnn_actor spawn_dnn(caf::actor_system& system,
                                                std::shared_ptr<device_service> service,
                                                std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

SLUICE_MESSAGES(sluice_dnn, 1300, sluice::dnn_actor, sluice::conv2d)
