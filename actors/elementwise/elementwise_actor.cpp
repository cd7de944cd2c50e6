// SPDX-License-Identifier: Apache-2.0

#include <sluice/actors/elementwise.hpp>
#include <sluice/actors/spawn_operations.hpp>

namespace sluice {
namespace {

template <class... Operations>
elementwise_actor spawn(caf::actor_system& system, std::shared_ptr<device_service> service,
                        std::shared_ptr<kernel_trace> trace) {
  return spawn_operations<Operations...>(system, "sluice.elementwise", std::move(service),
                                         std::move(trace),
                                         {&descriptor_of(operation_type<Operations>{})...});
}

}  // namespace

elementwise_actor spawn_elementwise(caf::actor_system& system,
                                    std::shared_ptr<device_service> service,
                                    std::shared_ptr<kernel_trace> trace) {
  return spawn<unary, binary, where, cast, strided_copy, affine, concatenate, stack, reduce, sort,
               top_k, resize, grid_sample, gather, gather_elements, gather_nd, pad, tile, roll,
               triangle, eye, range, one_hot, cumulative, scatter_elements, scatter_nd, quantize,
               dequantize, dynamic_quantize, histogram, depth_to_space, space_to_depth, reverse,
               reverse_sequence, im2col, col2im, frame_signal, power_spectrum, power_to_decibel>(
      system, std::move(service), std::move(trace));
}

}  // namespace sluice
