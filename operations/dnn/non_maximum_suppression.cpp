// SPDX-License-Identifier: Apache-2.0
#include "operations/cuda_build.hpp"
#include "operations/dnn/suppression_functions.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/workspace_plan.hpp"

#include <sluice/operations/non_maximum_suppression.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace sluice {
namespace {

/// The call, as traces see it.
struct suppressing_call : operations::suppression_call {
  [[nodiscard]] launch_facts facts() const noexcept {
    // Each box is compared with half of the selected ones, on average.
    constexpr double work_of_score = 16;
    const auto scores =
        static_cast<double>(batches) * static_cast<double>(classes) * static_cast<double>(boxes);
    return {.sizes = {batches, classes, boxes, most_of_group},
            .commands = 3,
            .work = scores * (work_of_score + 2 * static_cast<double>(most_of_group))};
  }
};

/// The memory of a GPU; see `suppression_workspace`. The largest number if it overflows.
std::int64_t workspace_bytes(const suppressing_call& call) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const double bytes =
      static_cast<double>(call.batches) * static_cast<double>(call.classes) *
          (8 * static_cast<double>(call.most_of_group) + 16 + static_cast<double>(call.boxes)) +
      8;
  if (bytes > 0x1p61) return most;
  const auto exact = call.groups() * (8 * call.most_of_group + 16 + call.boxes) + 8;
  // Calls of similar sizes share a plan.
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(exact)));
}

void require_parameters(const non_maximum_suppression& op) {
  if (op.max_output_boxes_per_class < 0) {
    throw invalid_argument("max_output_boxes_per_class",
                           std::to_string(op.max_output_boxes_per_class) + " is negative");
  }
  if (op.max_output_boxes < 0) {
    throw invalid_argument("max_output_boxes",
                           std::to_string(op.max_output_boxes) + " is negative");
  }
  if (!(op.iou_threshold >= 0 && op.iou_threshold <= 1)) {
    throw invalid_argument("iou_threshold", "is not between 0 and 1");
  }
  if (std::isnan(op.score_threshold)) throw invalid_argument("score_threshold", "is NaN");
}

suppressing_call infer_suppression(const non_maximum_suppression& op, inference& inference) {
  require_parameters(op);
  const auto& boxes = inference.require(op.boxes);
  const auto& scores = inference.require(op.scores);
  if (!operations::is_floating_point(boxes.type)) {
    throw inference.refusal(op.boxes, "is of type ", boxes.type,
                            ", but must be f16, bf16, f32 or f64");
  }
  operations::require_same_type(inference, op.scores, scores, boxes.type, "boxes");
  if (boxes.rank() != 3 || boxes.shape[2] != 4) {
    throw inference.refusal(op.boxes, "has the shape ", boxes.shape, ", but must be (N, B, 4)");
  }
  if (scores.rank() != 3 || scores.shape[0] != boxes.shape[0] ||
      scores.shape[2] != boxes.shape[1]) {
    throw inference.refusal(op.scores, "has the shape ", scores.shape,
                            ", which does not fit boxes of ", boxes.shape);
  }
  // The results of all batches follow each other without gaps.
  inference.couple_from(op.boxes, 0);
  inference.couple_from(op.scores, 0);
  suppressing_call call;
  call.boxes = boxes.shape[1];
  call.most_of_group = std::min(op.max_output_boxes_per_class, call.boxes);
  // The number of scores is no overflow, unless one extent is 0.
  if (scores.size() != 0 && call.most_of_group > 0) {
    call.batches = scores.shape[0];
    call.classes = scores.shape[1];
  }
  call.rows = std::min(call.groups() * call.most_of_group, op.max_output_boxes);
  const auto& selected = inference.result(op.selected, element_type::i64, {call.rows, 3});
  (void)inference.result(op.count, element_type::i64, {1});
  if (call.rows == 0) {
    call.batches = call.classes = 0;
    for (const auto* const operand : {&op.boxes, &op.scores, &op.selected}) {
      inference.ignore(*operand);
    }
  }
  std::copy_n(boxes.strides.begin(), 3, call.box_strides);
  std::copy_n(scores.strides.begin(), 3, call.score_strides);
  std::copy_n(selected.strides.begin(), 2, call.selected_strides);
  call.iou_threshold = op.iou_threshold;
  call.score_threshold = op.score_threshold;
  call.type = operations::storage_of(boxes.type);
  call.center_point_box = op.center_point_box;
  call.key.workspace_bytes = workspace_bytes(call);
  return call;
}

operations::suppression_addresses addresses_of_boxes(
    const launch_of<non_maximum_suppression>& launch) {
  using operation = non_maximum_suppression;
  return {launch.get<const void>(&operation::boxes), launch.get<const void>(&operation::scores),
          launch.get<std::int64_t>(&operation::selected),
          launch.get<std::int64_t>(&operation::count), launch.workspace()};
}
void compute_suppressing(const suppressing_call& call,
                         const launch_of<non_maximum_suppression>& launch) {
  host::compute_suppression(call, addresses_of_boxes(launch));
}
void enqueue_suppressing(lane_libraries& libraries, const suppressing_call& call,
                         const launch_of<non_maximum_suppression>& launch) {
  cuda::enqueue_suppression(libraries, call, addresses_of_boxes(launch));
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<non_maximum_suppression>) {
  static const typed_operation_descriptor<non_maximum_suppression, suppressing_call> descriptor(
      {.name = "non_maximum_suppression",
       .infer = infer_suppression,
       .host = {.library = "sluice"},
       .compute = compute_suppressing,
       .cuda = {.library = "sluice",
                .prepare = operations::with_cuda<cuda::prepare_suppression>(),
                .make_plan = operations::make_workspace_plan<suppressing_call>},
       .enqueue = operations::with_cuda<enqueue_suppressing>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
