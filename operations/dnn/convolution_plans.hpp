// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_call.hpp"

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/launch_descriptor.hpp>
#include <sluice/operations/operation_plan.hpp>

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <memory>

// The ways in which the host computes convolutions.
namespace sluice::host {

/// oneDNN's engine for one lane.
struct onednn_lane {
  onednn_lane(device_runtime&, stream_ref);
  dnnl::engine engine;
};

/// The operands of one convolution of f32.
struct f32_operands {
  const float* x;
  const float* w;
  const float* bias;
  float* y;
  std::byte* workspace;
  const void* prepacked_w =
      nullptr;  ///< the copy of `w` in the plan's layout; nullptr: there is none
  const float* residual = nullptr;  ///< may be null
};

/// A way to compute Y. Its parts get their residual and their activation while they are in a cache.
class convolution_plan : public operation_plan {
 public:
  virtual void run(const operations::convolution_call& call,
                   const f32_operands& operands) const = 0;
  /// The layout of a copy of W; without bytes if the plan takes W as it is.
  [[nodiscard]] virtual prepacked_layout layout_of_w() const { return {}; }
  /// Makes this copy.
  virtual void prepack_w(const float* /*w*/, void* /*copy*/) const {}
};

/// The most scratch memory that a plan may need, in bytes. oneDNN stores channels in blocks of 8 or
/// 16, which for one channel takes up to 16 times the memory of an image.
[[nodiscard]] std::size_t workspace_limit(const operations::convolution_shape& key) noexcept;

/// The plan of oneDNN for a convolution, whose parts are computed by threads of the device; nullptr
/// if oneDNN does not take it, or has no implementation that is fast and needs little memory.
/// @throws error `library_failure`, `out_of_memory`
[[nodiscard]] std::shared_ptr<const convolution_plan> make_onednn_plan(
    lane_libraries& libraries, const operations::convolution_shape& key);

/// The plan of products by oneDNN for a convolution whose filters have one tap; nullptr if it is
/// none, or if other plans are faster.
[[nodiscard]] std::shared_ptr<const convolution_plan> make_pointwise_plan(
    const operations::convolution_shape& key);

/// The plan of loops over rows for a convolution whose groups have few filters, or one channel of
/// X; nullptr if it is none, or if other plans are faster.
[[nodiscard]] std::shared_ptr<const convolution_plan> make_window_plan(
    const operations::convolution_shape& key);

}  // namespace sluice::host
