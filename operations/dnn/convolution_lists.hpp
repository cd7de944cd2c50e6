// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_inference.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

// The geometry of operations that have lists for it.
namespace sluice::operations {

[[nodiscard]] inline std::string name_of_list(geometry_member member, std::size_t) {
  switch (member) {
    case geometry_member::before:
      return "before";
    case geometry_member::after:
      return "after";
    case geometry_member::stride:
      return "strides";
    case geometry_member::dilation:
      return "dilation";
    case geometry_member::output_padding:
      return "output_padding";
    default:
      return "groups";
  }
}

/// Copies a list of numbers, if there is one, to the last dimensions of `numbers`.
inline void assign_list(std::string_view name, const extents& list, std::size_t rank,
                        spatial& numbers) {
  if (list.empty()) return;
  if (list.size() != rank) {
    throw invalid_argument(name, "is " + to_string(list) + ", but filters move over " +
                                     std::to_string(rank) + " dimensions of x");
  }
  std::copy(list.begin(), list.end(), numbers.end() - static_cast<std::ptrdiff_t>(rank));
}

/// The geometry of an operation over an X with `dimensions` dimensions.
template <class Operation>
[[nodiscard]] convolution_geometry geometry_of(const Operation& op, std::size_t dimensions) {
  if (dimensions < 3 || dimensions > 5) {
    throw invalid_argument("x", "has " + std::to_string(dimensions) +
                                    " dimensions, but must be a batch of images (N, C, D1 … Dk) "
                                    "with k from 1 to 3");
  }
  convolution_geometry g{.rank = dimensions - 2, .groups = op.groups, .name = name_of_list};
  assign_list("strides", op.strides, g.rank, g.stride);
  assign_list("before", op.before, g.rank, g.before);
  assign_list("after", op.after, g.rank, g.after);
  assign_list("dilation", op.dilation, g.rank, g.dilation);
  if constexpr (requires { op.output_padding; }) {
    assign_list("output_padding", op.output_padding, g.rank, g.output_padding);
    g.is_transposed = true;
  }
  return g;
}

}  // namespace sluice::operations
