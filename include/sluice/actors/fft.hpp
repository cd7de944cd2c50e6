// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_actor.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/fft.hpp>

#include <memory>

namespace sluice {

/// The library actor for Fourier transforms: cuFFT on a GPU, our own loops on the host.
using fft_actor = operation_actor<fft, rfft, irfft>;

/// Starts an fft actor with lanes of its own on `service`
/// (`device_service_options::lanes_per_actor`), each with a thread of its own.
/// @throws error `library_failure`, `out_of_memory`, `over_budget`, `shutting_down`, `device_lost`
[[nodiscard]] SLUICE_EXPORT fft_actor spawn_fft(caf::actor_system& system,
                                                std::shared_ptr<device_service> service,
                                                std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

SLUICE_MESSAGES(sluice_fft, 1400, sluice::fft_actor, sluice::fft, sluice::rfft, sluice::irfft)
