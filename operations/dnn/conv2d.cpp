// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/convolution_functions.hpp"

#include <sluice/operations/dnn.hpp>

#include <string>

namespace sluice {
namespace {

using operations::convolution_geometry;
using operations::geometry_member;

std::string name_of(geometry_member member, std::size_t axis) {
  const std::string suffix = axis == 1 ? ".h" : ".w";
  switch (member) {
    case geometry_member::before:
      return "geometry.padding" + suffix;
    case geometry_member::after:
      return "geometry.padding_after" + suffix;
    case geometry_member::stride:
      return "geometry.stride" + suffix;
    case geometry_member::dilation:
      return "geometry.dilation" + suffix;
    default:
      return "geometry.groups";
  }
}

convolution_geometry geometry_of(const conv2d_geometry& g) {
  const auto after = g.padding_after.value_or(g.padding);
  return {.rank = 2,
          .before = {0, g.padding.h, g.padding.w},
          .after = {0, after.h, after.w},
          .stride = {1, g.stride.h, g.stride.w},
          .dilation = {1, g.dilation.h, g.dilation.w},
          .groups = g.groups,
          .name = name_of};
}

operations::convolution_call infer(const conv2d& op, inference& inference) {
  return operations::infer_convolution({"conv2d", op.x, op.w, op.bias, op.residual, op.y,
                                        geometry_of(op.geometry), op.activation, op.math},
                                       inference);
}

}  // namespace

extents conv2d_output_shape(const extents& x, const extents& w, const conv2d_geometry& geometry) {
  return convolution_result(x, w, geometry_of(geometry));
}

const operation_descriptor& descriptor_of(operation_type<conv2d>) {
  static const operations::convolution_descriptor<conv2d> descriptor(
      operations::convolution_functions<conv2d>("conv2d", infer));
  return descriptor;
}

}  // namespace sluice
