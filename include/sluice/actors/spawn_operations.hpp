// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_actor.hpp>
#include <sluice/actors/request_type.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/indexed_operation.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace sluice {
namespace detail {
/// Starts an actor that runs requests of `types` on the lanes that `service` states.
/// @throws error as `executor`
[[nodiscard]] SLUICE_EXPORT caf::actor spawn_lanes(
    caf::actor_system& system, const char* name, const std::shared_ptr<device_service>& service,
    const std::shared_ptr<kernel_trace>& trace, std::vector<const operation_descriptor*> prepared,
    const std::vector<request_type>& types);
}  // namespace detail

/// Starts an `operation_actor<Requests...>` called `name` with lanes of its own on `service`
/// (`device_service_options::lanes_per_actor`), each with a thread of its own and the default
/// `executor_options`. The planner makes the library objects of `prepared` before a request needs
/// them: `{&descriptor_of(operation_type<saxpy>{})}`. `name` must outlive the actor.
///
///     const auto own = spawn_operations<saxpy>(system, "example.saxpy", device.shared_service());
///
/// A request is an operation, or a type with an overload of `to_operation` in its own namespace,
/// which turns it into one. `request_reply` states its answer.
///
/// The actor ends when its last handle is dropped, or when it receives an exit message with a
/// reason other than `exit_reason::normal`. The end of a `scoped_device` does not end it. Drop all
/// handles before the actor system ends: with CAF 0.17, its destructor does not return while one
/// exists.
/// @throws error as `executor`
template <class... Requests>
[[nodiscard]] operation_actor<Requests...> spawn_operations(
    caf::actor_system& system, const char* name, std::shared_ptr<device_service> service,
    std::shared_ptr<kernel_trace> trace = nullptr,
    std::vector<const operation_descriptor*> prepared = {}) {
  return caf::actor_cast<operation_actor<Requests...>>(detail::spawn_lanes(
      system, name, service, trace, std::move(prepared), {detail::request_type_of<Requests>()...}));
}

}  // namespace sluice
