// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_actor.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/rng.hpp>

#include <memory>

namespace sluice {

/// The library actor for random numbers: our kernels over cuRAND's device functions on a GPU,
/// Random123 on the host.
using rng_actor = operation_actor<random_bits, random_uniform, random_normal>;

/// Starts an rng actor with lanes of its own on `service`
/// (`device_service_options::lanes_per_actor`), each with a thread of its own.
/// @throws error `library_failure`, `out_of_memory`, `over_budget`, `shutting_down`, `device_lost`
[[nodiscard]] SLUICE_EXPORT rng_actor spawn_rng(caf::actor_system& system,
                                                std::shared_ptr<device_service> service,
                                                std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

SLUICE_MESSAGES(sluice_rng, 1500, sluice::rng_actor, sluice::random_bits, sluice::random_uniform,
                sluice::random_normal)
