// SPDX-License-Identifier: Apache-2.0
#include "actors/elementwise/elementwise_libraries.hpp"
#include "actors/elementwise/elementwise_library.hpp"
#include "actors/library_state.hpp"

#include <sluice/actors/elementwise.hpp>

namespace sluice {
namespace {

using namespace actors;
using parts = library_parts<elementwise_library>;

struct elementwise_state {
  std::shared_ptr<parts> p;
  const char* name = "sluice.elementwise";
};
using self_pointer = elementwise_actor::stateful_pointer<elementwise_state>;

std::array<std::int64_t, 4> sizes(std::size_t a, std::size_t b = 0) {
  return {static_cast<std::int64_t>(a), static_cast<std::int64_t>(b), 0, 0};
}

template <class T>
void launch(parts& p, const kernel_envelope& envelope, frame_signal<T>& r,
            const reply_token<gpu_ref<T>>& token) {
  const auto frames = frame_count(r.layout);
  if (frames > static_cast<std::size_t>(-1) / sizeof(T) / r.layout.n_fft) {
    throw error(errc::invalid_argument, "layout: the size of the frames overflows");
  }
  const auto count = frames * r.layout.n_fft;
  require_disjoint(r.output, "output", r.signal, "signal");
  require_disjoint(r.output, "output", r.window, "window");
  const auto& output = r.output = given_or_new(p, std::move(r.output), count, "frames");
  auto& runtime = p.lane.runtime();
  auto used = access_all(runtime, read(r.signal, "signal", r.layout.samples),
                         write(output, "output", count));
  if (r.window) {
    const auto window = read(r.window, "window", r.layout.n_fft);
    check_operand(runtime, window);
    used.add({window.block, window.access, false});
  }
  envelope.run(p.lane.lane(), std::move(used), token, output,
               {r.reply, sizes(frames, r.layout.n_fft)}, [&](const launch_context&) {
                 p.library->frame(element_type_v<T>, r.layout, r.signal.data(), r.window.data(),
                                  output.data());
               });
}

template <class T>
void launch(parts& p, const kernel_envelope& envelope, power_spectrum<T>& r,
            const reply_token<gpu_ref<T>>& token) {
  require_disjoint(r.output, "output", r.input, "input");
  const auto count = r.input.size();
  const auto& output = r.output = given_or_new(p, std::move(r.output), count, "power");
  auto used = access_all(p.lane.runtime(), read(r.input, "input"), write(output, "output", count));
  envelope.run(p.lane.lane(), std::move(used), token, output, {r.reply, sizes(count)},
               [&](const launch_context&) {
                 p.library->power(element_type_v<T>, count, r.input.data(), output.data());
               });
}

template <class T>
void launch(parts& p, const kernel_envelope& envelope, maximum<T>& r,
            const reply_token<gpu_ref<T>>& token) {
  require_disjoint(r.output, "output", r.input, "input");
  const auto count = r.input.size();
  const auto& output = r.output = given_or_new(p, std::move(r.output), 1, "maximum");
  auto used = access_all(p.lane.runtime(), read(r.input, "input", 1), write(output, "output", 1));
  envelope.run(p.lane.lane(), std::move(used), token, output, {r.reply, sizes(count)},
               [&](const launch_context&) {
                 p.library->maximum(element_type_v<T>, count, r.input.data(), output.data());
               });
}

template <class T>
void launch(parts& p, const kernel_envelope& envelope, power_to_decibel<T>& r,
            const reply_token<gpu_ref<T>>& token) {
  require_valid(element_type_v<T>, r.options);
  const auto count = r.input.size();
  if (r.output.data() != r.input.data()) require_disjoint(r.output, "output", r.input, "input");
  require_disjoint(r.output, "output", r.reference, "reference");
  const auto& output = r.output = given_or_new(p, std::move(r.output), count, "decibel");
  auto used = access_all(p.lane.runtime(), read(r.input, "input"),
                         read(r.reference, "reference", 1), write(output, "output", count));
  envelope.run(p.lane.lane(), std::move(used), token, output, {r.reply, sizes(count)},
               [&](const launch_context&) {
                 p.library->power_to_decibel(element_type_v<T>, count, r.input.data(),
                                             r.reference.data(), r.options, output.data());
               });
}

template <class Request>
auto handler(self_pointer self, const std::shared_ptr<parts>& p, const char* operation) {
  using output = decltype(Request::output);
  return request_handler<Request, output>(
      self, p->envelope("sluice", operation, element_type_v<typename output::value_type>),
      [](auto&... arguments) { launch(arguments...); });
}

elementwise_actor::behavior_type behavior(self_pointer self, std::shared_ptr<parts> p) {
  self->state.p = p;
  p->lane.serve(self->address());
  return {handler<frame_signal<float>>(self, p, "frame"),
          handler<frame_signal<double>>(self, p, "frame"),
          handler<power_spectrum<float>>(self, p, "power"),
          handler<power_spectrum<double>>(self, p, "power"),
          handler<maximum<float>>(self, p, "maximum"),
          handler<maximum<double>>(self, p, "maximum"),
          handler<power_to_decibel<float>>(self, p, "decibel"),
          handler<power_to_decibel<double>>(self, p, "decibel"),
          [self](room_atom) {
            self->state.p->lane.room();
          }};
}

}  // namespace

elementwise_actor spawn_elementwise(caf::actor_system& system,
                                    std::shared_ptr<device_service> service,
                                    std::shared_ptr<kernel_trace> trace) {
  auto p = std::make_shared<parts>(std::move(service), std::move(trace), make_elementwise_library);
  return system.spawn<library_actor_options>(behavior, std::move(p));
}

}  // namespace sluice
