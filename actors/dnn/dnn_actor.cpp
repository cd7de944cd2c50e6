// SPDX-License-Identifier: Apache-2.0
#include "actors/dnn/dnn_library.hpp"
#include "actors/library_state.hpp"

#include <sluice/actors/dnn.hpp>

namespace sluice {
namespace {

using namespace actors;
using parts = library_parts<dnn_library>;

struct dnn_state {
  std::shared_ptr<parts> p;
  const char* name = "sluice.dnn";
};
using self_pointer = dnn_actor::stateful_pointer<dnn_state>;

void launch(parts& p, const kernel_envelope& envelope, conv2d& request,
            const reply_token<gpu_ref<float>>& token) {
  const bool has_bias = static_cast<bool>(request.bias);
  const auto plan = p.library->prepare({request.input, request.filter, request.geometry, has_bias,
                                        request.activation, request.math});
  require_disjoint(request.y, "y", request.x, "x");
  require_disjoint(request.y, "y", request.w, "w");
  require_disjoint(request.y, "y", request.bias, "bias");
  const auto& y = request.y = given_or_new(p, std::move(request.y), plan->y_elements(), "conv2d y");
  auto& runtime = p.lane.runtime();
  auto used =
      access_all(runtime, read(request.x, "x", plan->x_elements()),
                 read(request.w, "w", plan->w_elements()), write(y, "y", plan->y_elements()));
  if (has_bias) {
    const auto bias = read(request.bias, "bias", plan->bias_elements());
    check_operand(runtime, bias);
    used.add({bias.block, bias.access, false});
  }
  used.keep(plan);
  envelope.run(
      p.lane.lane(), std::move(used), token, y,
      {request.reply, {plan->output().n, plan->output().c, plan->output().h, plan->output().w}},
      [&](const launch_context&) {
        p.library->conv2d(*plan, request.x.data(), request.w.data(), request.bias.data(), y.data());
      });
}

dnn_actor::behavior_type behavior(self_pointer self, std::shared_ptr<parts> p) {
  self->state.p = p;
  p->lane.serve(self->address());
  return {request_handler<conv2d, gpu_ref<float>>(
              self, p->envelope(std::string(p->library->name()), "conv2d", element_type::f32),
              [](auto&... arguments) { launch(arguments...); }),
          [self](room_atom) {
            self->state.p->lane.room();
          }};
}

}  // namespace

dnn_actor spawn_dnn(caf::actor_system& system, std::shared_ptr<device_service> service,
                    std::shared_ptr<kernel_trace> trace) {
  auto p = std::make_shared<parts>(std::move(service), std::move(trace), make_dnn_library);
  return system.spawn<library_actor_options>(behavior, std::move(p));
}

}  // namespace sluice
