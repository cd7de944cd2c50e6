// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/cuda_build.hpp"
#include "operations/dnn/roi_functions.hpp"
#include "operations/elementwise/indices.hpp"
#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/roi_align.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace sluice {
namespace {

/// The call, as traces see it.
struct region_call : operations::roi_call {
  [[nodiscard]] launch_facts facts() const noexcept {
    // A sample takes the time of several elements.
    constexpr double work_of_sample = 10;
    const auto bins = static_cast<double>(layout.count);
    double samples = bins;
    for (const auto& axis : axes) {
      const auto bins_of_axis = static_cast<double>(axis.bins);
      // Without a ratio, the samples are as many as the elements of X that a region meets, and one
      // more in each bin. Regions are not known before the launch, so they meet all of X.
      samples *= sampling_ratio > 0
                     ? static_cast<double>(sampling_ratio)
                     : (static_cast<double>(axis.extent) + bins_of_axis) / bins_of_axis;
    }
    return {.sizes = {layout.count},
            .work = work_of_sample * samples + work_of_parts * bins,
            .errors = layout.count != 0 ? detection_of(out_of_range) : error_detection::none};
  }
};

void require_parameters(const roi_align& op) {
  operations::require_enumerator("mode", op.mode, roi_pooling::maximum_term);
  (void)operations::require_policy(op.out_of_range);
  for (const auto& [name, bins] : {std::pair{"height", op.height}, {"width", op.width}}) {
    if (bins < 1) throw invalid_argument(name, std::to_string(bins) + " is less than 1");
  }
  if (op.sampling_ratio < 0) {
    throw invalid_argument("sampling_ratio", std::to_string(op.sampling_ratio) + " is negative");
  }
  if (!std::isfinite(op.spatial_scale)) {
    throw invalid_argument("spatial_scale", "is not a finite number");
  }
}

void require_regions(const roi_align& op, const inference& inference) {
  const auto& x = inference.require(op.x);
  const auto& rois = inference.require(op.rois);
  for (const auto* const operand : {&op.x, &op.rois}) {
    const auto& s = inference.require(*operand);
    if (operations::is_floating_point(s.type)) continue;
    throw inference.refusal(*operand, "is of type ", s.type, ", but must be f16, bf16, f32 or f64");
  }
  const auto& indices = operations::require_indices(inference, op.batch_indices);
  if (x.rank() != 4 || x.shape[2] == 0 || x.shape[3] == 0) {
    throw inference.refusal(op.x, "has the shape ", x.shape,
                            ", but must have 4 dimensions, the last two of which have elements");
  }
  if (rois.rank() != 2 || rois.shape[1] != 4) {
    throw inference.refusal(op.rois, "has the shape ", rois.shape, ", but must have rows of 4");
  }
  if (indices.rank() != 1 || indices.shape[0] != rois.shape[0]) {
    throw inference.refusal(op.batch_indices, "has the shape ", indices.shape,
                            ", but rois has the shape ", rois.shape);
  }
  if (x.shape[0] == 0 && rois.shape[0] != 0) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", so there is no image");
  }
}

region_call infer_roi_align(const roi_align& op, inference& inference) {
  require_parameters(op);
  require_regions(op, inference);
  const auto& x = inference.require(op.x);
  const auto& rois = inference.require(op.rois);
  const auto& indices = inference.require(op.batch_indices);
  // The indices name images of the whole X.
  inference.couple(op.x, 0);
  inference.couple_from(op.x, 2);
  inference.couple(op.rois, 1);
  const extents shape{rois.shape[0], x.shape[1], op.height, op.width};
  const auto& y = inference.result(op.y, x.type, shape);
  region_call call;
  if (y.size() == 0) {
    for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
    return call;
  }
  call.layout =
      operations::make_layout<6>(shape,
                                 {y.strides,
                                  {0, x.strides[1], 0, 0},
                                  {rois.strides[0], 0, 0, 0},
                                  {indices.strides[0], 0, 0, 0},
                                  {0, 0, 1, 0},
                                  {0, 0, 0, 1}},
                                 {y.type, x.type, rois.type, indices.type, x.type, x.type});
  const auto component = rois.strides[1];
  call.axes[0] = {x.shape[2], x.strides[2], op.height, component, 3 * component};
  call.axes[1] = {x.shape[3], x.strides[3], op.width, 0, 2 * component};
  call.images = x.shape[0];
  call.image_stride = x.strides[0];
  call.sampling_ratio = op.sampling_ratio;
  call.spatial_scale = op.spatial_scale;
  call.mode = op.mode;
  call.half_pixel = op.half_pixel;
  call.out_of_range = op.out_of_range;
  return call;
}

operations::map_addresses addresses_of_regions(const launch_of<roi_align>& launch) {
  return {launch.get<void>(&roi_align::y),
          {launch.get<const void>(&roi_align::x), launch.get<const void>(&roi_align::rois),
           launch.get<const void>(&roi_align::batch_indices)}};
}
/// The call of one launch, which reports batch indices that are out of range if that is an error.
operations::roi_call call_of_launch(const region_call& call, const launch_of<roi_align>& launch,
                                    device_kind kind) {
  operations::roi_call result = call;
  if (detects_errors(call.facts().errors, kind)) {
    result.errors = launch.index_errors(&roi_align::batch_indices);
  }
  return result;
}
void compute_roi_align(const region_call& call, const launch_of<roi_align>& launch) {
  if (call.layout.count == 0) return;
  host::compute_roi(call_of_launch(call, launch, device_kind::host), addresses_of_regions(launch));
}
void enqueue_roi_align(lane_libraries& libraries, const region_call& call,
                       const launch_of<roi_align>& launch) {
  if (call.layout.count == 0) return;
  cuda::enqueue_roi(libraries, call_of_launch(call, launch, device_kind::cuda),
                    addresses_of_regions(launch));
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<roi_align>) {
  static const typed_operation_descriptor<roi_align, region_call> descriptor(
      {.name = "roi_align",
       .infer = infer_roi_align,
       .host = {.library = "sluice"},
       .compute = compute_roi_align,
       .cuda = {.library = "sluice", .prepare = operations::with_cuda<cuda::prepare_roi>()},
       .enqueue = operations::with_cuda<enqueue_roi_align>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
