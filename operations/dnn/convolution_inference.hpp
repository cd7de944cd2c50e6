// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_call.hpp"

#include <sluice/operations/inference.hpp>
#include <sluice/operations/math_mode.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::operations {

/// The numbers of a geometry.
enum class geometry_member { before, after, stride, dilation, output_padding, groups };

/// How filters move over X, as any of the operations states it. Numbers of dimensions that X does
/// not have are those of an extent of 1.
struct convolution_geometry {
  std::size_t rank = 2;  ///< dimensions over which the filters move, from 1 to 3
  spatial before{};
  spatial after{};
  spatial stride{1, 1, 1};
  spatial dilation{1, 1, 1};
  spatial output_padding{};
  std::int64_t groups = 1;
  bool is_transposed = false;
  /// The name of a number in errors, along a dimension of `spatial`.
  std::string (*name)(geometry_member, std::size_t axis) = nullptr;

  /// The index in `spatial` of the first dimension.
  [[nodiscard]] std::size_t first_axis() const noexcept { return spatial{}.size() - rank; }
};

/// The shape of the result. Refuses everything that can be refused; see `conv2d_output_shape`.
[[nodiscard]] extents convolution_result(const extents& x, const extents& w,
                                         const convolution_geometry& geometry);

/// One of the operations.
struct convolution_request {
  std::string_view name;
  const operand& x;
  const operand& w;
  const operand& bias;
  const operand& residual;
  const operand& y;
  const convolution_geometry& geometry;
  sluice::activation activation;
  math_mode math;
};

/// The `infer` of all of them.
[[nodiscard]] convolution_call infer_convolution(const convolution_request& request,
                                                 inference& inference);

}  // namespace sluice::operations
