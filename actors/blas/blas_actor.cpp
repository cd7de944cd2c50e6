// SPDX-License-Identifier: Apache-2.0
#include "actors/blas/blas_library.hpp"
#include "actors/library_state.hpp"

#include <sluice/actors/blas.hpp>

namespace sluice {
namespace {

using namespace actors;
using parts = library_parts<blas_library>;

struct blas_state {
  std::shared_ptr<parts> p;
  const char* name = "sluice.blas";
};
using self_pointer = blas_actor::stateful_pointer<blas_state>;

template <class T>
void launch(parts& p, const kernel_envelope& envelope, gemm<T>& request,
            const reply_token<gpu_ref<T>>& token) {
  const auto shape = packed({request.layout, request.transpose_a, request.transpose_b, request.m,
                             request.n, request.k, request.lda, request.ldb, request.ldc});
  const auto extents = validate(shape);
  const bool reads_products =
      request.alpha != T{0} && extents.a != 0 && extents.b != 0 && extents.c != 0;
  if (!request.c && request.beta != T{0}) {
    throw error(errc::invalid_argument, "c: beta is not 0, but there is no c to scale");
  }
  if (reads_products) {
    require_disjoint(request.c, "c", request.a, "a");
    require_disjoint(request.c, "c", request.b, "b");
  }
  const auto& c = request.c = given_or_new(p, std::move(request.c), extents.c, "gemm c");
  // Gaps between rows are kept, so only a C without gaps is written as a whole.
  const bool keeps_c =
      request.beta != T{0} || extents.c != static_cast<std::size_t>(shape.m * shape.n);
  auto output = keeps_c ? read_write(c, "c", extents.c) : write(c, "c", extents.c);
  auto used = reads_products ? access_all(p.lane.runtime(), read(request.a, "a", extents.a),
                                          read(request.b, "b", extents.b), std::move(output))
                             : access_all(p.lane.runtime(), std::move(output));
  const gemm_call<T> call{shape,        request.alpha, request.a.data(), request.b.data(),
                          request.beta, c.data()};
  envelope.run(p.lane.lane(), std::move(used), token, c,
               {request.reply, {shape.m, shape.n, shape.k, 0}},
               [&](const launch_context&) { p.library->gemm(call); });
}

template <class T>
auto handler(self_pointer self, const std::shared_ptr<parts>& p) {
  return request_handler<gemm<T>, gpu_ref<T>>(
      self, p->envelope(std::string(p->library->name()), "gemm", element_type_v<T>),
      [](auto&... arguments) { launch(arguments...); });
}

blas_actor::behavior_type behavior(self_pointer self, std::shared_ptr<parts> p) {
  self->state.p = p;
  p->lane.serve(self->address());
  return {handler<float>(self, p), handler<double>(self, p), [self](room_atom) {
            self->state.p->lane.room();
          }};
}

}  // namespace

blas_actor spawn_blas(caf::actor_system& system, std::shared_ptr<device_service> service,
                      std::shared_ptr<kernel_trace> trace) {
  auto p = std::make_shared<parts>(std::move(service), std::move(trace), make_blas_library);
  return system.spawn<library_actor_options>(behavior, std::move(p));
}

}  // namespace sluice
