// SPDX-License-Identifier: Apache-2.0
#include "actors/lanes/lane_actor.hpp"
#include "runtime/seam.hpp"

#include <sluice/actors/device.hpp>
#include <sluice/actors/reply.hpp>
#include <sluice/envelope/lane.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace sluice {
namespace detail {

/// Says that the device actor of a scoped_device has ended. Unlike a monitor it does not need the
/// actor system.
class device_end {
 public:
  /// `handle` is the owner's reference to the actor.
  explicit device_end(device_actor& handle) noexcept : handle_(handle) {}

  /// `with_system`: the owner's reference is dropped, since the end of an actor system waits for
  /// the threads of detached actors, which exist as long as references to these.
  void signal(bool with_system) noexcept {
    const std::lock_guard lock(mutex_);
    if (with_system) handle_ = device_actor{};
    ended_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] bool ended() const noexcept {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  /// Waits for a short time. Whether the actor has ended.
  [[nodiscard]] bool wait() noexcept {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return ended_; });
  }

 private:
  device_actor& handle_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

}  // namespace detail

namespace {

using namespace detail;

/// The device actor's library actors: made when first asked for, watched, and ended with it.
struct library_actors {
  std::optional<blas_actor> blas;
  std::optional<dnn_actor> dnn;
  std::optional<fft_actor> fft;
  std::optional<rng_actor> rng;
  std::optional<elementwise_actor> elementwise;
  std::optional<program_actor> programs;
  std::optional<model_actor> models;

  /// Calls `visit` with each slot.
  template <class Visit>
  void for_each(Visit visit) {
    visit(blas);
    visit(dnn);
    visit(fft);
    visit(rng);
    visit(elementwise);
    visit(programs);
    visit(models);
  }
};

/// Signals an end when it is destroyed.
struct end_signal {
  end_signal() = default;
  end_signal(const end_signal&) = delete;
  end_signal& operator=(const end_signal&) = delete;
  ~end_signal() {
    if (end) end->signal(with_system);
  }
  std::shared_ptr<detail::device_end> end;
  bool with_system = false;
};

/// Signals the end of a device after everything else of its actor has been destroyed.
struct device_end_state {
  end_signal signal;
};

struct device_state : device_end_state, operation_state {
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
  library_actors libraries;
  caf::actor_addr system_server;  // whose end is that of the actor system; none where it waits
  std::optional<caf::error>
      ending;  // why the actor ends, while it waits for its library actors' ends
};
using self_pointer = caf::stateful_actor<device_state>*;

template <class Handle>
using library_slot = std::optional<Handle> library_actors::*;

/// A library actor, which is made if there is none: `spawn(system, service, trace)`.
template <class Handle, class Spawn>
const Handle& library_of(self_pointer self, library_slot<Handle> slot, const Spawn& spawn) {
  auto& state = state_of(self);
  auto& library = state.libraries.*slot;
  if (!library) {
    library = spawn(self->system(), state.service, state.trace);
    monitor(self, *library);
  }
  return *library;
}

/// The handler that hands out a library actor, making it if there is none.
template <class Request, class Handle, class Spawn>
auto library_handler(self_pointer self, library_slot<Handle> slot, Spawn spawn) {
  return [self, slot, spawn](Request) {
    const handled_message handled(self, sender_of(self->current_sender()));
    auto promise = take_promise<Handle>(self);
    answer_failures(promise.token, [&] {
      if (state_of(self).ending) throw error(errc::shutting_down, "the device actor is ending");
      promise.token.succeed(library_of(self, slot, spawn));
    });
    return promise.delegated;
  };
}

void quit(self_pointer self, const caf::error& reason) {
  auto& state = state_of(self);
  if (state.system_server) demonitor(self, state.system_server);
  self->quit(reason);
}

/// Ends the library actors first, so that when this one has ended nothing of its device is in use
/// any more.
void end_in_order(self_pointer self, const caf::error& reason) {
  auto& state = state_of(self);
  if (state.ending) return;
  state.ending = reason;
  bool any = false;
  state.libraries.for_each([&](auto& library) {
    if (!library) return;
    any = true;
    self->send_exit(*library, caf::exit_reason::user_shutdown);
  });
  if (!any) quit(self, reason);
}

void library_ended(self_pointer self, const caf::actor_addr& source) {
  auto& state = state_of(self);
  if (source == state.system_server) {
    state.signal.with_system = true;
    return end_in_order(self, caf::exit_reason::user_shutdown);
  }
  bool any = false;
  state.libraries.for_each([&](auto& library) {
    if (library && library->address() == source) library.reset();
    any = any || library.has_value();
  });
  if (state.ending && !any) quit(self, *state.ending);
}

/// Answers a request that needs no launch with `work(service, request)`.
template <class Request, class Reply, class Work>
auto immediate_handler(self_pointer self, Work work) {
  return [self, work](const Request& request) {
    const handled_message handled(self, sender_of(self->current_sender()));
    auto promise = take_promise<Reply>(self);
    answer_failures(promise.token,
                    [&] { promise.token.succeed(work(*state_of(self).service, request)); });
    return promise.delegated;
  };
}

tensor allocate_tensor(device_service& service, stream_ref stream, const allocate& request) {
  const auto spec = tensor_spec::row_major(request.type, request.shape);
  const detail::no_room_wait_scope no_wait;
  return tensor(service.runtime().allocate_bytes(spec.bytes(), stream, "allocate"), spec.type,
                spec.shape, spec.strides);
}

/// The actor of a device: one lane for transfers, and what hands out the library actors.
class device_lane final : public lane_actor<device_state> {
 public:
  device_lane(caf::actor_config& config, const std::shared_ptr<lane_of_actor>& lane,
              std::shared_ptr<device_service> service, std::shared_ptr<kernel_trace> trace,
              std::shared_ptr<detail::device_end> end)
      : lane_actor(config, lane),
        service_(std::move(service)),
        trace_(std::move(trace)),
        end_(std::move(end)) {}

 protected:
  caf::behavior make_behavior() override {
    serve_lane();
    auto& device = state_of(self());
    if (end_) {
      const auto server = caf::actor_cast<caf::actor>(system().spawn_serv());
      device.system_server = server.address();
      sluice::monitor(self(), server);
    }
    device.signal.end = std::move(end_);
    device.service = std::move(service_);
    device.trace = std::move(trace_);
    sluice::on_exit(self(), [this](caf::exit_msg& m) { end_in_order(self(), m.reason); });
    sluice::on_down(self(), [this](const caf::down_msg& m) {
      sender_ended(self(), m);
      library_ended(self(), m.source);
    });
    return operation_behavior(
        self(),
        immediate_handler<allocate, tensor>(self(),
                                            [stream = device.executor->lane().stream()](
                                                device_service& service, const allocate& request) {
                                              return allocate_tensor(service, stream, request);
                                            }),
        immediate_handler<allocate_pinned, host_tensor>(
            self(),
            [](device_service& service, const allocate_pinned& request) {
              return host_tensor::pinned(service.runtime(), request.type, request.shape);
            }),
        immediate_handler<get_statistics, device_status>(
            self(),
            [](device_service& service, get_statistics) -> device_status {
              service.runtime().reap_pending();
              return {service.device().info(), service.runtime().statistics(),
                      service.engine().pending()};
            }),
        library_handler<get_blas>(self(), &library_actors::blas, &spawn_blas),
        library_handler<get_dnn>(self(), &library_actors::dnn, &spawn_dnn),
        library_handler<get_fft>(self(), &library_actors::fft, &spawn_fft),
        library_handler<get_rng>(self(), &library_actors::rng, &spawn_rng),
        library_handler<get_elementwise>(self(), &library_actors::elementwise, &spawn_elementwise),
        library_handler<get_programs>(self(), &library_actors::programs, &spawn_programs),
        library_handler<get_models>(
            self(), &library_actors::models,
            [self = self()](caf::actor_system& system, std::shared_ptr<device_service> service,
                            const std::shared_ptr<kernel_trace>&) {
              const auto& programs = library_of(self, &library_actors::programs, &spawn_programs);
              return spawn_models(system, std::move(service), programs);
            }));
  }

 private:
  // Until the actor runs.
  std::shared_ptr<device_service> service_;
  std::shared_ptr<kernel_trace> trace_;
  std::shared_ptr<detail::device_end> end_;
};

/// Starts the actor of a device. The executor is made before, so that a failure is an error of this
/// function.
template <caf::spawn_options Options>
[[nodiscard]] device_actor spawn_lane_of_device(caf::actor_system& system,
                                                std::shared_ptr<device_service> service,
                                                std::shared_ptr<kernel_trace> trace,
                                                std::shared_ptr<detail::device_end> end) {
  const std::vector<request_type> types{request_type_of<upload>(), request_type_of<download>(),
                                        request_type_of<fill>(), request_type_of<strided_copy>()};
  const auto ids = {id_of_element_type<allocate>(),       id_of_element_type<allocate_pinned>(),
                    id_of_element_type<get_statistics>(), id_of_element_type<get_blas>(),
                    id_of_element_type<get_dnn>(),        id_of_element_type<get_fft>(),
                    id_of_element_type<get_rng>(),        id_of_element_type<get_elementwise>(),
                    id_of_element_type<get_programs>(),   id_of_element_type<get_models>()};
  auto lane = std::make_shared<lane_of_actor>(
      lane_of_actor{.name = "sluice.device",
                    .requests = std::make_shared<const request_table>(types, ids),
                    .executor = std::make_unique<executor>(service, trace),
                    .prepared = {}});
  return caf::actor_cast<device_actor>(system.spawn<device_lane, Options>(
      std::move(lane), std::move(service), std::move(trace), std::move(end)));
}

}  // namespace

device_actor spawn_device(caf::actor_system& system, std::shared_ptr<device_service> service,
                          std::shared_ptr<kernel_trace> trace) {
  return spawn_lane_of_device<caf::detached>(system, std::move(service), std::move(trace), nullptr);
}

scoped_device::scoped_device(caf::actor_system& system, std::string_view device_name,
                             std::shared_ptr<kernel_trace> trace, device_service_options options)
    : scoped_device(system, std::make_shared<device_service>(device_name, std::move(options)),
                    std::move(trace)) {}

scoped_device::scoped_device(caf::actor_system& system, std::shared_ptr<device_service> service,
                             std::shared_ptr<kernel_trace> trace)
    : system_(system),
      service_(std::move(service)),
      end_(std::make_shared<detail::device_end>(actor_)) {
  // An actor system waits for the end of every actor that is not hidden before it tells its own
  // actors to end. Hidden, this one learns of the system's end and does not hold it up.
  actor_ =
      spawn_lane_of_device<caf::detached + caf::hidden>(system, service_, std::move(trace), end_);
}

scoped_device::~scoped_device() {
  if (service_->device().inherited()) {
    detail::leave_to_parent(new (std::nothrow) device_actor(std::move(actor_)));
    return;
  }
  if (end_->ended()) return;  // with the actor system, perhaps
  caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
  detail::slow_wait waiting;
  while (!end_->wait()) {
    waiting.look([&] {
      return "the end of a scoped_device waits for its actors on " +
             to_string(service_->device().id()) + ", with " +
             std::to_string(service_->engine().pending()) + " launches in flight";
    });
  }
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
program_actor scoped_device::programs() {
  return ask<program_actor>(system_, actor_, get_programs{});
}
model_actor scoped_device::models() {
  return ask<model_actor>(system_, actor_, get_models{});
}

}  // namespace sluice
