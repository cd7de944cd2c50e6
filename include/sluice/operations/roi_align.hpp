// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/out_of_range_policy.hpp>
#include <sluice/operations/roi_pooling.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// Regions of images, each divided into bins of interpolated samples.
///
///     roi_align{.x = features, .rois = boxes, .batch_indices = images,
///               .height = 7, .width = 7, .spatial_scale = 1.0 / 16}
///
/// X has the shape (N, C, H, W) with at least one element in H and W. `rois` has the shape (R, 4):
/// a region from (x1, y1) to (x2, y2) in the image whose number is in `batch_indices`, of shape
/// (R). Y has the shape (R, C, height, width).
///
/// Coordinates are multiplied by `spatial_scale`, and with `half_pixel` they lose 1/2: the centres
/// of elements are then at half-integers, as `aligned=True` has it in torchvision. Without it, a
/// region has a width and a height of at least 1. A bin has `sampling_ratio` samples along each
/// dimension at equal distances, or with 0 as many as it has elements, rounded up. A sample is a
/// bilinear interpolation. Up to one element outside of X, it is that of the nearest border;
/// beyond, and where a coordinate is NaN, it is 0. An element of weight 0 is not read. A bin
/// without samples is 0. This is RoiAlign of ONNX (opset 16 and 22).
///
/// Types: f16, bf16, f32 and f64, for X and Y the same, and for the regions any. If one of them is
/// f64, samples are computed in f64, otherwise in f32. Batch indices are of type i32 or i64, and
/// `out_of_range` states what becomes of one that is out of range: the nearest image is taken, or
/// the request fails with `invalid_argument` and a text that begins with "batch_indices". All
/// strides are allowed. Y shares no bytes with the inputs. The result is Y, a new row-major tensor
/// if it is not given.
struct roi_align {
  operand x{};                              ///< X
  operand rois{};                           ///< the regions
  operand batch_indices{};                  ///< the image of each region
  std::int64_t height = 1;                  ///< bins along H, at least 1
  std::int64_t width = 1;                   ///< bins along W, at least 1
  std::int64_t sampling_ratio = 0;          ///< samples of a bin along a dimension; 0: by its size
  double spatial_scale = 1;                 ///< of X to the regions' coordinates
  roi_pooling mode = roi_pooling::average;  ///< what samples become
  bool half_pixel = true;                   ///< whether coordinates lose 1/2
  out_of_range_policy out_of_range = out_of_range_policy::usual;  ///< of a batch index
  operand y{};                                                    ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &roi_align::x), input("rois", &roi_align::rois),
        input("batch_indices", &roi_align::batch_indices), parameter("height", &roi_align::height),
        parameter("width", &roi_align::width),
        parameter("sampling_ratio", &roi_align::sampling_ratio),
        parameter("spatial_scale", &roi_align::spatial_scale), parameter("mode", &roi_align::mode),
        parameter("half_pixel", &roi_align::half_pixel),
        parameter("out_of_range", &roi_align::out_of_range), output("y", &roi_align::y));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<roi_align>);

}  // namespace sluice
