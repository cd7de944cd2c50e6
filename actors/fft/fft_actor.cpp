// SPDX-License-Identifier: Apache-2.0
#include "actors/fft/fft_libraries.hpp"
#include "actors/fft/fft_library.hpp"
#include "actors/library_state.hpp"

#include <sluice/actors/fft.hpp>

namespace sluice {
namespace {

using namespace actors;
using parts = library_parts<fft_library>;

struct fft_state {
  std::shared_ptr<parts> p;
  const char* name = "sluice.fft";
};
using self_pointer = fft_actor::stateful_pointer<fft_state>;

template <class Real>
fft_kind kind_of(const fft_c2c<Real>& request) {
  return request.direction == fft_direction::forward ? fft_kind::c2c_forward
                                                     : fft_kind::c2c_inverse;
}
template <class Real>
fft_kind kind_of(const fft_r2c<Real>&) {
  return fft_kind::r2c;
}
template <class Real>
fft_kind kind_of(const fft_c2r<Real>&) {
  return fft_kind::c2r;
}

template <class Request>
using output_of = decltype(Request::output);

template <class Request>
void launch(parts& p, const kernel_envelope& envelope, Request& request,
            const reply_token<output_of<Request>>& token) {
  using out = typename output_of<Request>::value_type;
  const auto plan = p.library->prepare(
      {kind_of(request), envelope.description().type, request.shape.length, request.shape.batch,
       request.shape.input_distance, request.shape.output_distance});
  const auto& d = plan->description();
  require_disjoint(request.output, "output", request.input, "input");
  const auto extent = output_extent(d);
  const auto& output = request.output =
      given_or_new<out>(p, std::move(request.output), extent, "fft output");
  const bool gaps = extent != d.batch * output_row(d.kind, d.length);
  auto used =
      access_all(p.lane.runtime(), read(request.input, "input", input_extent(d)),
                 gaps ? read_write(output, "output", extent) : write(output, "output", extent));
  require_executable(d, request.input.data(), output.data(), request.scale);
  used.keep(plan);
  envelope.run(p.lane.lane(), std::move(used), token, output,
               {request.reply,
                {static_cast<std::int64_t>(d.length), static_cast<std::int64_t>(d.batch), 0, 0}},
               [&](const launch_context&) {
                 p.library->execute(*plan, request.input.data(), output.data(), request.scale);
               });
}

template <class Request>
auto handler(self_pointer self, const std::shared_ptr<parts>& p, const char* operation,
             element_type type) {
  return request_handler<Request, output_of<Request>>(
      self, p->envelope(p->on_host() ? "KissFFT" : "cuFFT", operation, type),
      [](auto&... arguments) { launch(arguments...); });
}

fft_actor::behavior_type behavior(self_pointer self, std::shared_ptr<parts> p) {
  self->state.p = p;
  p->lane.serve(self->address());
  return {handler<fft_c2c<float>>(self, p, "fft c2c", element_type::f32),
          handler<fft_c2c<double>>(self, p, "fft c2c", element_type::f64),
          handler<fft_r2c<float>>(self, p, "fft r2c", element_type::f32),
          handler<fft_r2c<double>>(self, p, "fft r2c", element_type::f64),
          handler<fft_c2r<float>>(self, p, "fft c2r", element_type::f32),
          handler<fft_c2r<double>>(self, p, "fft c2r", element_type::f64),
          [self](room_atom) {
            self->state.p->lane.room();
          }};
}

}  // namespace

fft_actor spawn_fft(caf::actor_system& system, std::shared_ptr<device_service> service,
                    std::shared_ptr<kernel_trace> trace) {
  auto p = std::make_shared<parts>(std::move(service), std::move(trace), make_fft_library);
  return system.spawn<library_actor_options>(behavior, std::move(p));
}

}  // namespace sluice
