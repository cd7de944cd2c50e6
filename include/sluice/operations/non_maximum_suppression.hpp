// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <cstdint>
#include <limits>
#include <tuple>

namespace sluice {

/// The best boxes of each class, without those that overlap a better one.
///
///     const tensors selected = …  // the answer to non_maximum_suppression{
///                                 //   .boxes = boxes, .scores = scores,
///                                 //   .max_output_boxes_per_class = 100, .iou_threshold = 0.5}
///     selected[0]                 // rows of (batch, class, box), then rows of -1
///     selected[1]                 // the number of rows that are selected
///
/// `boxes` has the shape (N, B, 4) and `scores` the shape (N, C, B). A box is (y1, x1, y2, x2) with
/// any two opposite corners, or with `center_point_box` its centre and size (x, y, width, height).
/// In each class of each batch, boxes whose score is above `score_threshold` are taken by falling
/// scores, equal ones by rising numbers. A box is selected if its intersection with each box that
/// is selected already, divided by their union, is at most `iou_threshold`. At most
/// `max_output_boxes_per_class` boxes are selected. These are the rules of NonMaxSuppression in
/// ONNX (opset 11). A box without area overlaps none, and NaN is above no threshold.
///
/// The number of selected boxes depends on the data, so `selected` has as many rows as there can
/// be: N · C · min(`max_output_boxes_per_class`, B), or `max_output_boxes` if that is smaller;
/// further boxes are left out. Rows are ordered by batch, class and falling score. Rows behind the
/// last one are -1.
///
/// Types: f16, bf16, f32 and f64, for boxes and scores the same. f64 is computed in f64, all others
/// in f32. All strides are allowed. The outputs share no bytes with the inputs or each other. Those
/// that are not given are new row-major tensors. The answer is `tensors`: selected, count.
struct non_maximum_suppression {
  operand boxes{};                              ///< the boxes
  operand scores{};                             ///< a score for each class and box
  std::int64_t max_output_boxes_per_class = 0;  ///< at least 0
  /// The most rows of `selected`, at least 0.
  std::int64_t max_output_boxes = std::numeric_limits<std::int64_t>::max();
  double iou_threshold = 0;  ///< from 0 to 1
  /// −∞: boxes with any score but NaN are taken.
  double score_threshold = -std::numeric_limits<double>::infinity();
  bool center_point_box = false;  ///< whether boxes are centres and sizes
  operand selected{};             ///< the rows, i64
  operand count{};                ///< their number, i64 of shape (1)

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    using self = non_maximum_suppression;
    return std::make_tuple(
        input("boxes", &self::boxes), input("scores", &self::scores),
        parameter("max_output_boxes_per_class", &self::max_output_boxes_per_class),
        parameter("max_output_boxes", &self::max_output_boxes),
        parameter("iou_threshold", &self::iou_threshold),
        parameter("score_threshold", &self::score_threshold),
        parameter("center_point_box", &self::center_point_box), output("selected", &self::selected),
        output("count", &self::count));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<non_maximum_suppression>);

}  // namespace sluice
