#include "actors/device/transfers.hpp"
#include "actors/reply.hpp"

#include <sluice/actors/device.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace sluice {
namespace {

using namespace actors;

/// The device actor's library actors: made when first asked for, watched, and ended with it.
struct library_actors {
  std::optional<blas_actor> blas;
  std::optional<dnn_actor> dnn;
  std::optional<fft_actor> fft;
  std::optional<rng_actor> rng;
  std::optional<elementwise_actor> elementwise;

  /// Calls `visit` with each slot.
  template <class Visit>
  void for_each(Visit visit) {
    visit(blas);
    visit(dnn);
    visit(fft);
    visit(rng);
    visit(elementwise);
  }
};

struct device_state {
  device_state() = default;
  device_state(const device_state&) = delete;
  device_state& operator=(const device_state&) = delete;
  /// An actor that is killed does not come to `end_in_order`.
  ~device_state() {
    libraries.for_each([](auto& library) {
      if (library) caf::anon_send_exit(*library, caf::exit_reason::user_shutdown);
    });
  }

  std::shared_ptr<device_service> service;
  std::shared_ptr<kernel_trace> trace;
  std::shared_ptr<transfers> moves;
  library_actors libraries;
  std::optional<caf::error>
      ending;  // why the actor ends, while it waits for its library actors' ends
  const char* name = "sluice.device";
};
using self_pointer = device_actor::stateful_pointer<device_state>;

/// The handler of a transfer of type `Request<T>`.
template <class Request, class Reply>
auto transfer_handler(self_pointer self) {
  return [self](Request& request) {
    auto taken = take_request<Reply>(self, std::move(request));
    auto* moves = self->state.moves.get();
    moves->lane().run([moves, &request = *taken.request, token = std::move(taken.token)] {
      answer_failures(token, [&] { moves->run(request, token); });
    });
    return taken.promise;
  };
}

/// The handler that hands out a library actor, making it if there is none.
template <class Request, class Handle>
auto library_handler(self_pointer self, std::optional<Handle> library_actors::*slot,
                     Handle (*spawn)(caf::actor_system&, std::shared_ptr<device_service>,
                                     std::shared_ptr<kernel_trace>)) {
  return [self, slot, spawn](Request request) {
    auto taken = take_request<Handle>(self, request);
    answer_failures(taken.token, [&] {
      auto& state = self->state;
      if (state.ending) throw error(errc::shutting_down, "the device actor is ending");
      auto& library = state.libraries.*slot;
      if (!library) {
        library = spawn(self->system(), state.service, state.trace);
        self->monitor(*library);
      }
      taken.token.succeed(*library);
    });
    return taken.promise;
  };
}

/// Ends the library actors first, so that when this one has ended nothing of its device is in use
/// any more.
void end_in_order(self_pointer self, const caf::error& reason) {
  auto& state = self->state;
  if (state.ending) return;
  state.ending = reason;
  bool any = false;
  state.libraries.for_each([&](auto& library) {
    if (!library) return;
    any = true;
    self->send_exit(*library, caf::exit_reason::user_shutdown);
  });
  if (!any) self->quit(reason);
}

void library_ended(self_pointer self, const caf::actor_addr& who) {
  auto& state = self->state;
  bool any = false;
  state.libraries.for_each([&](auto& library) {
    if (library && library->address() == who) library.reset();
    any = any || library.has_value();
  });
  if (state.ending && !any) self->quit(*state.ending);
}

template <class... T>
struct behavior_of {
  static device_actor::behavior_type make(self_pointer self) {
    return {
        transfer_handler<allocate<T>, gpu_ref<T>>(self)...,
        transfer_handler<fill<T>, gpu_ref<T>>(self)...,
        transfer_handler<copy<T>, gpu_ref<T>>(self)...,
        transfer_handler<upload<T>, gpu_ref<T>>(self)...,
        transfer_handler<download<T>, std::vector<T>>(self)...,
        library_handler<get_blas>(self, &library_actors::blas, &spawn_blas),
        library_handler<get_dnn>(self, &library_actors::dnn, &spawn_dnn),
        library_handler<get_fft>(self, &library_actors::fft, &spawn_fft),
        library_handler<get_rng>(self, &library_actors::rng, &spawn_rng),
        library_handler<get_elementwise>(self, &library_actors::elementwise, &spawn_elementwise),
        [self](get_statistics request) {
          auto taken = take_request<device_status>(self, request);
          answer_failures(taken.token, [&] {
            auto& service = *self->state.service;
            service.runtime().reap_pending();
            taken.token.succeed({service.device().info(), service.runtime().statistics(),
                                 service.engine().pending()});
          });
          return taken.promise;
        },
        [](const detail::deferred_work&) {},  // done as the message goes
        [self](room_atom) {
          self->state.moves->lane().room();
        }};
  }
};

device_actor::behavior_type behavior(self_pointer self, std::shared_ptr<device_service> service,
                                     std::shared_ptr<kernel_trace> trace,
                                     std::shared_ptr<transfers> moves) {
  self->state.service = std::move(service);
  self->state.trace = std::move(trace);
  const auto address = self->address();
  self->state.moves = std::move(moves);
  self->state.moves->defer_to([address](std::shared_ptr<const void> work) {
    if (const auto actor = caf::actor_cast<caf::strong_actor_ptr>(address)) {
      actor->enqueue(nullptr, caf::make_message_id(),
                     caf::make_message(detail::deferred_work{std::move(work)}), nullptr);
    }
  });
  self->state.moves->lane().wake(address);
  self->set_exit_handler([self](caf::exit_msg& m) { end_in_order(self, m.reason); });
  self->set_down_handler([self](caf::down_msg& m) { library_ended(self, m.source); });
  return transfer_types<behavior_of>::make(self);
}

}  // namespace

device_actor spawn_device(caf::actor_system& system, std::shared_ptr<device_service> service,
                          std::shared_ptr<kernel_trace> trace) {
  // Made here, so that failing is an error of this call and not an actor's end.
  auto moves = std::make_shared<transfers>(service, trace);
  return system.spawn<caf::detached>(behavior, std::move(service), std::move(trace),
                                     std::move(moves));
}

scoped_device::scoped_device(caf::actor_system& system, std::string_view device_name,
                             std::shared_ptr<kernel_trace> trace, device_service_options options)
    : scoped_device(system, std::make_shared<device_service>(device_name, std::move(options)),
                    std::move(trace)) {}

scoped_device::scoped_device(caf::actor_system& system, std::shared_ptr<device_service> service,
                             std::shared_ptr<kernel_trace> trace)
    : system_(system),
      service_(std::move(service)),
      actor_(spawn_device(system, service_, std::move(trace))) {}

scoped_device::~scoped_device() {
  caf::scoped_actor self{system_};
  self->send_exit(actor_, caf::exit_reason::user_shutdown);
  self->wait_for(actor_);
}

blas_actor scoped_device::blas() {
  return ask<blas_actor>(system_, actor_, get_blas{});
}
dnn_actor scoped_device::dnn() {
  return ask<dnn_actor>(system_, actor_, get_dnn{});
}
fft_actor scoped_device::fft() {
  return ask<fft_actor>(system_, actor_, get_fft{});
}
rng_actor scoped_device::rng() {
  return ask<rng_actor>(system_, actor_, get_rng{});
}
elementwise_actor scoped_device::elementwise() {
  return ask<elementwise_actor>(system_, actor_, get_elementwise{});
}

}  // namespace sluice
