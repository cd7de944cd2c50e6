// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/quantize_call.hpp"

#include <sluice/operations/quantization.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {
namespace {

using operations::dequantize_call;
using operations::quantize_call;

[[nodiscard]] bool has_32_bits_at_most(element_type type) {
  return type == element_type::f16 || type == element_type::bf16 || type == element_type::f32;
}
[[nodiscard]] bool is_quantized(element_type type) {
  return (type >= element_type::u8 && type <= element_type::i16) || operations::is_float8(type);
}

/// The dimensions of X, where one with blocks is two, and the strides of the operands along them.
struct blocked_dimensions {
  extents shape{};
  std::array<extents, 4> strides{};  ///< of y, x, scale, zero point

  void push_back(std::int64_t extent, const std::array<std::int64_t, 4>& steps) {
    shape.push_back(extent);
    for (std::size_t k = 0; k < strides.size(); ++k) strides[k].push_back(steps[k]);
  }
};

/// The extents of scale along the dimensions of X: each is 1 or a divisor.
template <class Operation>
extents scale_extents(const Operation& op, inference& inference, const tensor_spec& x,
                      const tensor_spec& scale) {
  extents numbers = x.shape;
  std::fill_n(numbers.data(), numbers.size(), 1);
  if (op.axis) {
    const auto axis = operations::dimension_of("axis", *op.axis, x.rank());
    if (scale.rank() != 1 || scale.shape[0] != x.shape[axis]) {
      throw inference.refusal(op.scale, "has the shape ", scale.shape, ", but x has ",
                              x.shape[axis], " indices along the axis");
    }
    numbers[axis] = scale.shape[0];
    return numbers;
  }
  bool fits = scale.rank() <= x.rank();
  auto dimensions =
      x.rank() - static_cast<std::size_t>(std::count(x.shape.begin(), x.shape.end(), 1));
  for (std::size_t i = 0; fits && i < scale.rank(); ++i) {
    const auto d = x.rank() - scale.rank() + i;
    numbers[d] = scale.shape[i];
    if (numbers[d] == x.shape[d] || numbers[d] == 1) continue;
    inference.couple(op.x, d);
    inference.couple(op.scale, i);
    if (inference.given(op.zero_point) != nullptr && i < inference.require(op.zero_point).rank()) {
      inference.couple(op.zero_point, i);
    }
    fits = numbers[d] > 0 && x.shape[d] > 0 && x.shape[d] % numbers[d] == 0;
    ++dimensions;
  }
  if (!fits) {
    throw inference.refusal(op.scale, "has the shape ", scale.shape,
                            ", which neither is broadcast to ", x.shape, " nor divides it");
  }
  if (dimensions > extents::max_rank) {
    throw inference.refusal(op.scale, "has the shape ", scale.shape,
                            ", but the dimensions of x and of its blocks are more than ",
                            extents::max_rank);
  }
  return numbers;
}

/// The layout of a map from x to y with scale and zero point.
template <class Operation>
operations::map_layout<4> quantized_layout(const Operation& op, const inference& inference,
                                           const tensor_spec& x, const tensor_spec& y,
                                           const extents& numbers) {
  const auto& scale = inference.require(op.scale);
  const auto* const zero_point = inference.given(op.zero_point);
  blocked_dimensions dimensions;
  if (y.size() != 0) {
    const auto first =
        op.axis ? operations::dimension_of("axis", *op.axis, x.rank()) : x.rank() - scale.rank();
    for (std::size_t d = 0; d < x.rank(); ++d) {
      const auto extent = x.shape[d];
      if (extent == 1) continue;
      if (numbers[d] == 1) {
        dimensions.push_back(extent, {y.strides[d], x.strides[d], 0, 0});
        continue;
      }
      const auto scale_stride = scale.strides[d - first];
      const auto zero_stride = zero_point != nullptr ? zero_point->strides[d - first] : 0;
      const auto block = extent / numbers[d];
      dimensions.push_back(numbers[d],
                           {y.strides[d] * block, x.strides[d] * block, scale_stride, zero_stride});
      if (block > 1) dimensions.push_back(block, {y.strides[d], x.strides[d], 0, 0});
    }
  } else {
    dimensions.push_back(0, {});
  }
  return operations::make_layout<4>(
      dimensions.shape, dimensions.strides,
      {y.type, x.type, scale.type, zero_point != nullptr ? zero_point->type : element_type::u8});
}

/// Refuses a scale that is no small real number, and a zero point of another type or shape.
template <class Operation>
void require_scale(const Operation& op, const inference& inference, element_type type,
                   std::string_view model) {
  const auto& scale = inference.require(op.scale);
  if (!has_32_bits_at_most(scale.type)) {
    throw inference.refusal(op.scale, "is of type ", scale.type,
                            ", but must be f16, bf16 or f32; cast converts");
  }
  const auto* const zero_point = inference.given(op.zero_point);
  if (zero_point == nullptr) return;
  operations::require_same_type(inference, op.zero_point, *zero_point, type, model);
  if (zero_point->shape != scale.shape) {
    throw inference.refusal(op.zero_point, "has the shape ", zero_point->shape,
                            ", but scale has the shape ", scale.shape);
  }
}

quantize_call infer_quantize(const quantize& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (!has_32_bits_at_most(x.type) && x.type != element_type::i32) {
    throw inference.refusal(op.x, "is of type ", x.type,
                            ", but must be f16, bf16, f32 or i32; cast converts");
  }
  operations::require_type("type", op.type);
  const auto* const zero_point = inference.given(op.zero_point);
  const auto* const output_spec = inference.given(op.y);
  const auto type = op.type                  ? *op.type
                    : zero_point != nullptr  ? zero_point->type
                    : output_spec != nullptr ? output_spec->type
                                             : element_type::u8;
  if (!is_quantized(type)) {
    throw invalid_argument(op.type                 ? "type"
                           : zero_point != nullptr ? "zero_point"
                                                   : "y",
                           "is of type " + std::string(to_string(type)) +
                               ", but must be u8, i8, u16, i16, e4m3 or e5m2");
  }
  require_scale(op, inference, type, "the result");
  const auto numbers = scale_extents(op, inference, x, inference.require(op.scale));
  const auto& y = inference.result(op.y, type, x.shape, operations::memory_order(x));
  return {quantized_layout(op, inference, x, y, numbers)};
}

dequantize_call infer_dequantize(const dequantize& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (!is_quantized(x.type) && x.type != element_type::i32) {
    throw inference.refusal(op.x, "is of type ", x.type,
                            ", but must be u8, i8, u16, i16, i32, e4m3 or e5m2");
  }
  if (x.type == element_type::i32 && inference.given(op.zero_point) != nullptr) {
    throw inference.refusal(op.zero_point, "is given, but x of type i32 has none");
  }
  require_scale(op, inference, x.type, "x");
  operations::require_type("type", op.type);
  const auto* const output_spec = inference.given(op.y);
  const auto type = op.type                  ? *op.type
                    : output_spec != nullptr ? output_spec->type
                                             : inference.require(op.scale).type;
  if (!has_32_bits_at_most(type)) {
    throw invalid_argument(op.type ? "type" : "y", "is of type " + std::string(to_string(type)) +
                                                       ", but must be f16, bf16 or f32");
  }
  const auto numbers = scale_extents(op, inference, x, inference.require(op.scale));
  const auto& y = inference.result(op.y, type, x.shape, operations::memory_order(x));
  return {quantized_layout(op, inference, x, y, numbers)};
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<quantize>) {
  return operations::descriptor_of_map<quantize, quantize_call, infer_quantize, &quantize::x,
                                       &quantize::scale, &quantize::zero_point>("quantize");
}
const operation_descriptor& descriptor_of(operation_type<dequantize>) {
  return operations::descriptor_of_map<dequantize, dequantize_call, infer_dequantize,
                                       &dequantize::x, &dequantize::scale, &dequantize::zero_point>(
      "dequantize");
}

}  // namespace sluice
