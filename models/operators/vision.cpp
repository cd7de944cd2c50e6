// SPDX-License-Identifier: Apache-2.0
// Interpolation in images.
#include "models/operator_table.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/concatenate.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/grid_sample.hpp>
#include <sluice/operations/movement.hpp>
#include <sluice/operations/resize.hpp>
#include <sluice/operations/roi_align.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

namespace sluice::models {

namespace {

resize_mode mode_of(const node& n) {
  return n.choice<resize_mode>("mode", {{"nearest", resize_mode::nearest},
                                        {"linear", resize_mode::linear},
                                        {"bilinear", resize_mode::linear},
                                        {"cubic", resize_mode::cubic}});
}
resize_coordinates coordinates_of(const node& n) {
  return n.choice<resize_coordinates>(
      "coordinate_transformation_mode",
      {{"half_pixel", resize_coordinates::half_pixel},
       {"half_pixel_symmetric", resize_coordinates::half_pixel_symmetric},
       {"pytorch_half_pixel", resize_coordinates::pytorch_half_pixel},
       {"align_corners", resize_coordinates::align_corners},
       {"asymmetric", resize_coordinates::asymmetric},
       {"tf_crop_and_resize", resize_coordinates::crop}});
}
nearest_rounding rounding_of(const node& n) {
  return n.choice<nearest_rounding>("nearest_mode",
                                    {{"round_prefer_floor", nearest_rounding::prefer_floor},
                                     {"round_prefer_ceil", nearest_rounding::prefer_ceil},
                                     {"floor", nearest_rounding::floor},
                                     {"ceil", nearest_rounding::ceil}});
}
resize_policy policy_of(const node& n) {
  return n.choice<resize_policy>("keep_aspect_ratio_policy",
                                 {{"stretch", resize_policy::stretch},
                                  {"not_larger", resize_policy::not_larger},
                                  {"not_smaller", resize_policy::not_smaller}});
}

/// What changes along one axis.
struct axis_change {
  std::int64_t axis;
  double scale;
  std::int64_t size;
  double begin;
  double end;
};

/// With aligned corners, the extent that a scale states may be a fraction in ONNX: of 4 · 0.6
/// elements there are 2, and the last corner of the input lies behind them. The elements that there
/// are come from the part of the input that ends at the last of them.
bool align_fractions(const value& x, std::vector<axis_change>& changes) {
  const auto width = [&](const axis_change& change) {
    return change.scale * static_cast<double>(x.extent(static_cast<std::size_t>(change.axis)));
  };
  const auto is_whole = [&](const axis_change& change) {
    return std::floor(width(change)) == width(change) || !(width(change) < 0x1p53);
  };
  if (std::all_of(changes.begin(), changes.end(), is_whole)) return false;
  for (auto& change : changes) {
    const auto whole = std::floor(width(change));
    change.size = static_cast<std::int64_t>(std::min(whole, 0x1p53));
    change.end = whole > 1 ? (whole - 1) / (width(change) - 1) : 0;
  }
  return true;
}

/// Resizes along the axes that change, of which there are at most three.
results resize_axes(const node& n, resize changed, std::vector<axis_change> changes,
                    bool by_scale) {
  const auto& x = n.input(0);
  if (changed.policy == resize_policy::stretch) {
    std::erase_if(changes, [&](const axis_change& change) {
      const bool whole =
          changed.coordinates != resize_coordinates::crop || (change.begin == 0 && change.end == 1);
      return whole && (by_scale ? change.scale == 1
                                : change.size == x.extent(static_cast<std::size_t>(change.axis)));
    });
  }
  if (changes.empty()) return x;
  if (by_scale && changed.coordinates == resize_coordinates::align_corners &&
      align_fractions(x, changes)) {
    changed.coordinates = resize_coordinates::crop;
    by_scale = false;
  }
  if (changes.size() > resize::max_axes)
    throw n.unsupported("scales", "change more than three axes");
  changed.x = x;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    changed.axes.push_back(changes[i].axis);
    if (by_scale) {
      changed.scales[i] = changes[i].scale;
    } else {
      changed.sizes.push_back(changes[i].size);
    }
    if (changed.coordinates == resize_coordinates::crop) {
      changed.roi_begin[i] = changes[i].begin;
      changed.roi_end[i] = changes[i].end;
    }
  }
  return n.add(std::move(changed));
}

/// Since version 11: inputs are X, roi, scales and sizes.
results import_resize(const node& n) {
  const auto& x = n.input(0);
  std::vector<std::int64_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  axes = n.attribute("axes", axes);
  resize changed{.mode = mode_of(n),
                 .coordinates = coordinates_of(n),
                 .rounding = rounding_of(n),
                 .policy = policy_of(n),
                 .antialias = n.attribute("antialias", std::int64_t{0}) != 0,
                 .exclude_outside = n.attribute("exclude_outside", std::int64_t{0}) != 0,
                 .a = n.attribute("cubic_coeff_a", -0.75),
                 .extrapolation = n.attribute("extrapolation_value", 0.0)};
  if (changed.mode == resize_mode::nearest) changed.antialias = changed.exclude_outside = false;
  const bool by_scale = n.has_input(2) && n.input(2).size() != 0;
  const auto scales = by_scale ? n.reals(2, "scales") : std::vector<double>(axes.size(), 1);
  const auto sizes = by_scale ? std::vector<std::int64_t>(axes.size(), 0) : n.integers(3, "sizes");
  std::vector<double> region(2 * axes.size(), 1);
  std::fill_n(region.begin(), axes.size(), 0);
  if (changed.coordinates == resize_coordinates::crop) region = n.reals(1, "roi");
  if (scales.size() != axes.size() || sizes.size() != axes.size() ||
      region.size() != 2 * axes.size()) {
    throw n.refusal("scales", "scales, sizes or roi do not have one number for each axis");
  }
  std::vector<axis_change> changes;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    changes.push_back({static_cast<std::int64_t>(n.dimension(axes[i], x.rank(), "axes")), scales[i],
                       sizes[i], region[i], region[axes.size() + i]});
  }
  return resize_axes(n, std::move(changed), std::move(changes), by_scale);
}
/// Version 10, and Upsample: scales alone.
results import_upsample(const node& n) {
  std::vector<double> scales;
  if (n.has_attribute("scales")) {
    const auto& numbers = n.require_attribute("scales").floats();
    scales.assign(numbers.begin(), numbers.end());
  } else {
    scales = n.reals(1, "scales");
  }
  if (scales.size() != n.input(0).rank()) throw n.refusal("scales", "has not one for each axis");
  std::vector<axis_change> changes;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    changes.push_back({static_cast<std::int64_t>(i), scales[i], 0, 0, 1});
  }
  return resize_axes(n,
                     {.mode = mode_of(n),
                      .coordinates = resize_coordinates::asymmetric,
                      .rounding = nearest_rounding::floor},
                     std::move(changes), true);
}

results import_grid_sample(const node& n) {
  const auto mode = n.choice<grid_mode>("mode", {{"linear", grid_mode::linear},
                                                 {"bilinear", grid_mode::linear},
                                                 {"nearest", grid_mode::nearest},
                                                 {"cubic", grid_mode::cubic},
                                                 {"bicubic", grid_mode::cubic}});
  const auto padding =
      n.choice<grid_padding>("padding_mode", {{"zeros", grid_padding::zeros},
                                              {"border", grid_padding::border},
                                              {"reflection", grid_padding::reflection}});
  return n.add(grid_sample{.x = n.input(0),
                           .grid = n.input(1),
                           .mode = mode,
                           .padding = padding,
                           .align_corners = n.attribute("align_corners", std::int64_t{0}) != 0});
}
/// The positions of the elements along a dimension, from -1 to 1.
value grid_positions(const node& n, std::int64_t extent, bool align_corners, element_type type) {
  const auto count = static_cast<double>(extent);
  const auto index = n.add(range{.limit = extent, .type = type});
  if (align_corners) {
    const auto step = extent > 1 ? 2 / (count - 1) : 0;
    return n.add(affine{.x = index, .factor = step, .offset = extent > 1 ? -1 : 0});
  }
  return n.add(affine{.x = index, .factor = 2 / count, .offset = 1 / count - 1});
}
/// The positions of the elements of images, transformed: theta · (x, y, 1), or with a z.
results import_affine_grid(const node& n) {
  const auto& theta = n.input(0);
  const auto size = n.integers(1, "size");
  if (size.size() < 4 || size.size() > 5) throw n.refusal("size", "has not four or five numbers");
  const auto rank = size.size() - 2;
  const bool aligned = n.attribute("align_corners", std::int64_t{0}) != 0;
  const extents space(std::span<const std::int64_t>(size).subspan(2));
  std::vector<operand> coordinates;
  for (auto d = rank; d-- > 0;) {  // x comes first, and belongs to the last dimension.
    extents shape;
    for (std::size_t i = 0; i < rank; ++i) shape.push_back(i == d ? -1 : 1);
    coordinates.emplace_back(
        grid_positions(n, space[d], aligned, theta.type()).reshape(shape).broadcast_to(space));
  }
  coordinates.emplace_back(n.number(theta.type(), 1).broadcast_to(space));
  const auto columns = static_cast<std::int64_t>(rank + 1);
  const auto points =
      n.add(stack{.x = std::move(coordinates), .axis = -1}).reshape({1, -1, columns});
  extents shape{size[0]};
  for (const auto extent : space) shape.push_back(extent);
  shape.push_back(static_cast<std::int64_t>(rank));
  return n.add(gemm{.a = points, .b = theta.transposed()}).reshape(shape);
}
results import_roi_align(const node& n) {
  const bool is_old = n.opset() < 16;  // without half pixels
  const bool half_pixel = (!is_old || n.has_attribute("coordinate_transformation_mode")) &&
                          n.choice<bool>("coordinate_transformation_mode",
                                         {{"half_pixel", true}, {"output_half_pixel", false}});
  const auto mode = n.choice<roi_pooling>(
      "mode", {{"avg", roi_pooling::average}, {"max", roi_pooling::maximum_term}});
  return n.add(roi_align{.x = n.input(0),
                         .rois = n.input(1),
                         .batch_indices = n.input(2),
                         .height = n.attribute("output_height", std::int64_t{1}),
                         .width = n.attribute("output_width", std::int64_t{1}),
                         .sampling_ratio = n.attribute("sampling_ratio", std::int64_t{0}),
                         .spatial_scale = n.attribute("spatial_scale", 1.0),
                         .mode = mode,
                         .half_pixel = half_pixel});
}

constexpr std::array vision_entries{
    operator_entry{"AffineGrid", import_affine_grid, 20},
    operator_entry{"GridSample", import_grid_sample, 16},
    operator_entry{"Resize", import_upsample, 10},
    operator_entry{"Resize", import_resize, 11},
    operator_entry{"RoiAlign", import_roi_align, 10},
    operator_entry{"Upsample", import_upsample, 7},
};

}  // namespace

std::span<const operator_entry> vision_operators() {
  return vision_entries;
}

}  // namespace sluice::models
