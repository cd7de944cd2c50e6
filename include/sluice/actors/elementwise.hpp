// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_actor.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/concatenate.hpp>
#include <sluice/operations/cumulative.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/gather.hpp>
#include <sluice/operations/grid_sample.hpp>
#include <sluice/operations/histogram.hpp>
#include <sluice/operations/movement.hpp>
#include <sluice/operations/quantization.hpp>
#include <sluice/operations/rearrangement.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/resize.hpp>
#include <sluice/operations/scatter.hpp>
#include <sluice/operations/sort.hpp>
#include <sluice/operations/spectral.hpp>

#include <memory>

namespace sluice {

/// The library actor for operations on elements: our own kernels on a GPU, the same functions
/// compiled for the host.
using elementwise_actor =
    operation_actor<unary, binary, where, cast, strided_copy, affine, concatenate, stack, reduce,
                    sort, top_k, resize, grid_sample, gather, gather_elements, gather_nd, pad, tile,
                    roll, triangle, eye, range, one_hot, cumulative, scatter_elements, scatter_nd,
                    quantize, dequantize, dynamic_quantize, histogram, depth_to_space,
                    space_to_depth, reverse, reverse_sequence, im2col, col2im, frame_signal,
                    power_spectrum, power_to_decibel>;

/// Starts an elementwise actor with lanes of its own on `service`
/// (`device_service_options::lanes_per_actor`), each with a thread of its own.
/// @throws error `library_failure`, `out_of_memory`, `over_budget`, `shutting_down`, `device_lost`
[[nodiscard]] SLUICE_EXPORT elementwise_actor
spawn_elementwise(caf::actor_system& system, std::shared_ptr<device_service> service,
                  std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

SLUICE_MESSAGES(sluice_elementwise, 1600, sluice::elementwise_actor, sluice::unary, sluice::binary,
                sluice::where, sluice::cast, sluice::strided_copy, sluice::affine, sluice::reduce,
                sluice::concatenate, sluice::stack, sluice::sort, sluice::top_k, sluice::resize,
                sluice::grid_sample, sluice::gather, sluice::gather_elements, sluice::gather_nd,
                sluice::pad, sluice::tile, sluice::roll, sluice::triangle, sluice::eye,
                sluice::range, sluice::one_hot, sluice::cumulative, sluice::scatter_elements,
                sluice::scatter_nd, sluice::quantize, sluice::dequantize, sluice::dynamic_quantize,
                sluice::histogram, sluice::depth_to_space, sluice::space_to_depth, sluice::reverse,
                sluice::reverse_sequence, sluice::im2col, sluice::col2im, sluice::frame_signal,
                sluice::power_spectrum, sluice::power_to_decibel)
