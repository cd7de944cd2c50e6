// SPDX-License-Identifier: Apache-2.0
#include "actors/library_state.hpp"
#include "actors/rng/rng_library.hpp"

#include <sluice/actors/rng.hpp>

namespace sluice {
namespace {

using namespace actors;
using parts = library_parts<rng_library>;

struct rng_state {
  std::shared_ptr<parts> p;
  const char* name = "sluice.rng";
};
using self_pointer = rng_actor::stateful_pointer<rng_state>;

random_description describe(const random_bits& r) {
  return {random_distribution::bits, element_type::u32, r.range.seed, r.range.offset,
          r.range.count};
}
template <class T>
random_description describe(const random_uniform<T>& r) {
  return {random_distribution::uniform, element_type_v<T>, r.range.seed, r.range.offset,
          r.range.count};
}
template <class T>
random_description describe(const random_normal<T>& r) {
  return {random_distribution::normal,
          element_type_v<T>,
          r.range.seed,
          r.range.offset,
          r.range.count,
          r.mean,
          r.stddev};
}

template <class Request>
using output_of = decltype(Request::output);

template <class Request>
void launch(parts& p, const kernel_envelope& envelope, Request& request,
            const reply_token<output_of<Request>>& token) {
  const auto description = describe(request);
  require_valid(description);
  const auto& output = request.output =
      given_or_new(p, std::move(request.output), description.count, "random output");
  auto used = access_all(p.lane.runtime(), write(output, "output", description.count));
  envelope.run(p.lane.lane(), std::move(used), token, output,
               {request.reply, {static_cast<std::int64_t>(description.count), 0, 0, 0}},
               [&](const launch_context&) { p.library->generate(description, output.data()); });
}

template <class Request>
auto handler(self_pointer self, const std::shared_ptr<parts>& p, const char* operation) {
  return request_handler<Request, output_of<Request>>(
      self,
      p->envelope(p->on_host() ? "Random123" : "cuRAND", operation,
                  element_type_v<typename output_of<Request>::value_type>),
      [](auto&... arguments) { launch(arguments...); });
}

rng_actor::behavior_type behavior(self_pointer self, std::shared_ptr<parts> p) {
  self->state.p = p;
  p->lane.serve(self->address());
  return {handler<random_bits>(self, p, "random bits"),
          handler<random_uniform<float>>(self, p, "random uniform"),
          handler<random_uniform<double>>(self, p, "random uniform"),
          handler<random_normal<float>>(self, p, "random normal"),
          handler<random_normal<double>>(self, p, "random normal"),
          [self](room_atom) {
            self->state.p->lane.room();
          }};
}

}  // namespace

rng_actor spawn_rng(caf::actor_system& system, std::shared_ptr<device_service> service,
                    std::shared_ptr<kernel_trace> trace) {
  auto p = std::make_shared<parts>(std::move(service), std::move(trace), make_rng_library);
  return system.spawn<library_actor_options>(behavior, std::move(p));
}

}  // namespace sluice
