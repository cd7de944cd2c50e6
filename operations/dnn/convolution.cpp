// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/convolution_functions.hpp"
#include "operations/dnn/convolution_lists.hpp"

#include <sluice/operations/convolution.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

namespace sluice {
namespace {

template <class Operation>
operations::convolution_call infer(const Operation& op, inference& inference) {
  constexpr auto name =
      std::is_same_v<Operation, convolution> ? "convolution" : "transposed_convolution";
  return operations::infer_convolution(
      {name, op.x, op.w, op.bias, op.residual, op.y,
       operations::geometry_of(op, inference.require(op.x).rank()), op.activation, op.math},
      inference);
}

}  // namespace

convolution_padding same_padding(const extents& x, const extents& taps, const extents& strides,
                                 const extents& dilation, odd_padding odd) {
  const auto number = [&](std::string_view name, const extents& list, std::size_t i,
                          std::int64_t least) {
    if (name != "x" && list.empty()) return std::int64_t{1};
    if (list.size() != x.size()) {
      throw invalid_argument(
          name, "is " + to_string(list) + ", but x has " + std::to_string(x.size()) + " extents");
    }
    if (list[i] >= least) return list[i];
    throw invalid_argument(name, "is " + to_string(list) + ", but its numbers must be at least " +
                                     std::to_string(least));
  };
  convolution_padding padding;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto stride = number("strides", strides, i, 1);
    const auto extent = number("x", x, i, 0);
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(number("taps", taps, i, 1) - 1, number("dilation", dilation, i, 1),
                               &reach)) {
      throw invalid_argument("dilation", "is " + to_string(dilation) + ", which overflows taps");
    }
    // The elements that the last output needs, less those of X.
    const auto last = extent == 0 ? 0 : (extent - 1) / stride * stride + 1;
    const auto total = std::max<std::int64_t>(reach - (extent - last), 0);
    const auto less = total / 2;
    padding.before.push_back(odd == odd_padding::after ? less : total - less);
    padding.after.push_back(odd == odd_padding::after ? total - less : less);
  }
  return padding;
}

const operation_descriptor& descriptor_of(operation_type<convolution>) {
  static const operations::convolution_descriptor<convolution> descriptor(
      operations::convolution_functions<convolution>("convolution", infer));
  return descriptor;
}

const operation_descriptor& descriptor_of(operation_type<transposed_convolution>) {
  static const operations::convolution_descriptor<transposed_convolution> descriptor(
      operations::convolution_functions<transposed_convolution>("transposed_convolution", infer));
  return descriptor;
}

}  // namespace sluice
