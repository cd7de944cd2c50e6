// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_actor.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensors.hpp>

#include <memory>

namespace sluice {

/// The answer to `run`: one tensor for each output of the program.
template <>
struct request_reply<run> {
  using type = tensors;  ///< type of the answer

  /// Needs nothing of the request.
  explicit request_reply(run&) noexcept {}
  /// The outputs.
  [[nodiscard]] tensors operator()(tensors results) const noexcept { return results; }
};

/// The answer to `run_to_host`: one tensor for each output of the program.
template <>
struct request_reply<run_to_host> {
  using type = host_tensors;  ///< type of the answer

  /// Needs nothing of the request.
  explicit request_reply(run_to_host&) noexcept {}
  /// The outputs.
  [[nodiscard]] host_tensors operator()(host_tensors results) const noexcept { return results; }
};
template <>
struct local_message<host_tensors> : std::true_type {};

/// The answer to `prepare`.
template <>
struct request_reply<prepare> {
  using type = prepared;  ///< type of the answer

  /// Needs nothing of the request.
  explicit request_reply(prepare&) noexcept {}
  /// What is known of the runs.
  [[nodiscard]] prepared operator()(prepared result) const noexcept { return result; }
};
template <>
struct local_message<prepared> : std::true_type {};

/// The actor that runs and prepares programs.
///
///     request(self, programs, caf::infinite, run{spectrogram, {samples}})
using program_actor = operation_actor<run, run_to_host, prepare>;

/// Starts a program actor with lanes of its own on `service`
/// (`device_service_options::lanes_per_actor`), each with a thread of its own.
/// @throws error `library_failure`, `out_of_memory`, `over_budget`, `shutting_down`, `device_lost`
[[nodiscard]] SLUICE_EXPORT program_actor
spawn_programs(caf::actor_system& system, std::shared_ptr<device_service> service,
               std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

SLUICE_MESSAGES(sluice_programs, 1150, sluice::program_actor, sluice::run, sluice::prepare,
                sluice::prepared, sluice::run_to_host, sluice::host_tensors)
