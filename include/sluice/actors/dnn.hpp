// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/dnn_types.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>

#include <memory>

namespace sluice {

/// Asks for a forward 2-D convolution (cross-correlation) of f32 tensors: y = activation(conv(x, w)
/// + bias). x is (N, C, H, W), w is (K, C/groups, R, S), bias has K elements or is left out, y is
/// (N, K, H', W') with the shape that `conv2d_output_shape` tells; all row-major without gaps.
/// Without `y` one is allocated. The reply is `y`, which must not share bytes with the others.
///
/// Errors: `invalid_argument` (shapes or geometry that do not fit, an operand that is missing, too
/// small, on another device or overlapping), `unsupported` (the library cannot do it), `stale_ref`,
/// `out_of_memory`, `upstream_failed`, `library_failure`, `shutting_down`, `device_lost`.
struct conv2d {
  nchw_shape input{};          ///< shape of x
  filter_shape filter{};       ///< shape of w
  conv2d_geometry geometry{};  ///< padding, stride, dilation and groups
  gpu_ref<float> x{};          ///< input
  gpu_ref<float> w{};          ///< filters
  gpu_ref<float> bias{};       ///< one number for each filter; may be left out
  sluice::activation activation =
      sluice::activation::none;  ///< applied to each element of the result
  /// f32 means f32; TF32 only when asked for.
  math_mode math = math_mode::f32;
  gpu_ref<float> y{};                   ///< output, allocated when left out
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// The library actor for neural-network operations: cuDNN on a GPU, oneDNN on the host.
using dnn_actor = caf::typed_actor<caf::replies_to<conv2d>::with<gpu_ref<float>>,
                                   caf::reacts_to<caf::atom_constant<caf::atom("room")>>>;

/// Starts a dnn actor on a thread of its own, with a lane of its own on `service`.
/// @throws error `unsupported` when this build has no dnn library for the device; as `spawn_blas`
[[nodiscard]] SLUICE_EXPORT dnn_actor spawn_dnn(caf::actor_system& system,
                                                std::shared_ptr<device_service> service,
                                                std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::conv2d)
