// SPDX-License-Identifier: Apache-2.0
// What a user may get wrong in a call of `ask`, one mistake for each macro. Without a macro, the
// file compiles.
#include <sluice/actors/device.hpp>

#include <chrono>

using namespace sluice;

tensor asked(caf::actor_system& system, const device_actor& device, const blas_actor& blas) {
  (void)ask<tensor>(system, device, allocate{.shape = {4}});
#if defined(WRONG_MESSAGE)
  return ask<tensor>(system, blas, conv2d{});
#elif defined(WRONG_OPTIONS)
  return ask<tensor>(system, blas, std::chrono::seconds(1), gemm{}, get_queue_status{});
#elif defined(WRONG_REPLY)
  return tensor(ask<gpu_ref<float> >(system, blas, gemm{}));
#else
  return ask<tensor>(system, blas, std::chrono::seconds(1), gemm{}, request_options{});
#endif
}
