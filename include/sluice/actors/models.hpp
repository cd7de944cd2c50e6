// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_actor.hpp>
#include <sluice/actors/program.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/models.hpp>
#include <sluice/operations/tensors.hpp>

#include <memory>
#include <type_traits>

namespace sluice {

/// The answer to `run_model`: one tensor for each output that is wanted.
template <>
struct request_reply<run_model> {
  using type = tensors;  ///< type of the answer
};
/// The answer to `run_model_to_host`: one tensor for each output that is wanted.
template <>
struct request_reply<run_model_to_host> {
  using type = host_tensors;  ///< type of the answer
};
template <>
struct local_message<model_list> : std::true_type {};
template <>
struct local_message<model_description> : std::true_type {};

/// The actor that serves models by name. It takes `run_model` and `run_model_to_host` alone, or
/// followed by `request_options`. The sender of requests may cancel them with `cancel_request`.
/// `get_queue_status` tells of the requests that wait for programs.
///
///     const auto scores = ask<host_tensors>(
///         system, device.models(),
///         run_model_to_host{.name = "classifier", .inputs = {{"image", pixels}}});
///
/// Programs are made on two threads, one model at a time on each. One is for models whose last
/// program took less than 20 ms, so that these do not wait for the others. Models take turns. For
/// each name, at most 1024 requests wait for programs, those of one sender at most 512, and they
/// keep at most 128 MiB of inputs. Requests to earlier models of the name count as well.
using model_actor =
    caf::typed_actor<takes<model_description(load_model)>, takes<model_list(unload_model)>,
                     takes<model_list(list_models)>, takes<model_description(describe_model)>,
                     takes<tensors(run_model)>, takes<tensors(run_model, request_options)>,
                     takes<host_tensors(run_model_to_host)>,
                     takes<host_tensors(run_model_to_host, request_options)>,
                     takes<void(cancel_request)>, takes<queue_status(get_queue_status)>>;

/// Starts a model actor, which has its programs run by `programs`, an actor of `service`. It ends
/// when its last handle is dropped, or with `programs`. Requests that wait for a program are then
/// answered with `shutting_down`. Its end waits for a program that is being made. Until then it
/// answers requests with `shutting_down`, unless it has been killed (`exit_reason::kill`).
/// @throws std::bad_alloc if there is no memory
[[nodiscard]] SLUICE_EXPORT model_actor spawn_models(caf::actor_system& system,
                                                     std::shared_ptr<device_service> service,
                                                     const program_actor& programs);

}  // namespace sluice

SLUICE_MESSAGES(sluice_models, 1170, sluice::model_actor, sluice::load_model, sluice::unload_model,
                sluice::run_model, sluice::run_model_to_host, sluice::list_models,
                sluice::model_list, sluice::describe_model, sluice::model_description)
