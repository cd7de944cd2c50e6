// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/lane_queue.hpp"
#include "actors/reply.hpp"

#include <sluice/envelope/kernel_envelope.hpp>

#include <memory>
#include <string>
#include <utility>

namespace sluice::actors {

/// How library actors are spawned. Hidden: an actor system that ends waits for all other actors
/// first, and would wait for ever for those that a `scoped_device` keeps.
inline constexpr auto library_actor_options = caf::detached + caf::hidden;

/// What every library actor's state consists of: a lane, the library bound to the lane's stream, a
/// trace. Made by whoever spawns the actor, so that failing to make the library is an error there
/// and not an actor's end.
template <class Library>
struct library_parts {
  template <class Make>
  library_parts(std::shared_ptr<device_service> service, std::shared_ptr<kernel_trace> trace_,
                Make make)
      : lane(std::move(service)), trace(std::move(trace_)) {
    library = make(lane.runtime(), lane.lane().stream());
    // The library goes when the lane's last launch has completed.
    lane.lane().keep(library);
  }

  lane_queue lane;
  std::shared_ptr<Library> library;
  std::shared_ptr<kernel_trace> trace;

  [[nodiscard]] bool on_host() const noexcept {
    return lane.runtime().device().id().kind == device_kind::host;
  }
  /// An envelope for one operation of the library.
  [[nodiscard]] kernel_envelope envelope(std::string library_name, std::string operation,
                                         element_type type) const {
    auto label = library_name + " " + operation + " " + std::string(to_string(type));
    kernel_envelope made({std::move(library_name), std::move(operation), type});
    made.trace(trace).nvtx_label(std::move(label));
    return made;
  }
};

/// A reference to `count` elements: `given` if there is one, else new memory on the lane's stream.
template <class T, class Library>
[[nodiscard]] gpu_ref<T> given_or_new(library_parts<Library>& parts, gpu_ref<T> given,
                                      std::size_t count, allocation_tag tag) {
  if (given) return given;
  return parts.lane.runtime().template allocate<T>(count, parts.lane.lane().stream(), tag);
}

/// The handler of one kind of request: takes it over, runs `launch(parts, envelope, request,
/// token)` when the lane has room, and turns what it throws into the answer. The request is
/// destroyed before the answer is sent. A launch keeps no reference of its own beyond its call of
/// the envelope: the output that it allocates becomes the request's.
template <class Request, class Reply, class Self, class Launch>
[[nodiscard]] auto request_handler(Self* self, kernel_envelope made, Launch launch) {
  return [self, envelope = std::make_shared<const kernel_envelope>(std::move(made)),
          launch](Request& request) {
    auto taken = take_request<Reply>(self, std::move(request));
    // The state alone owns the parts: they go with it when the actor ends, whoever holds a handle.
    auto& parts = *self->state.p;
    parts.lane.run(
        [&parts, envelope, launch, &request = *taken.request, token = std::move(taken.token)] {
          answer_failures(token, [&] {
            // Before a library is asked for anything: what it says on a lost device is not the
            // reason.
            parts.lane.runtime().device().require_usable();
            launch(parts, *envelope, request, token);
          });
        });
    return taken.promise;
  };
}

/// @throws error `invalid_argument` when an output shares bytes with an input
template <class T, class U>
void require_disjoint(const gpu_ref<T>& output, const char* output_name, const gpu_ref<U>& input,
                      const char* input_name) {
  if (overlap(output, input)) {
    throw error(errc::invalid_argument,
                std::string(output_name) + ": shares memory with " + input_name);
  }
}

}  // namespace sluice::actors
