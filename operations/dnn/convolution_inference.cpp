// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/convolution_inference.hpp"

#include "operations/core/enumerators.hpp"
#include "operations/elementwise/layouts.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>

namespace sluice::operations {
namespace {

/// The extents over which filters move, with 1 for each that `shape` does not have.
spatial spatial_extents(const extents& shape) {
  spatial values{1, 1, 1};
  const auto rank = shape.size() - 2;
  std::copy_n(shape.begin() + 2, rank, values.end() - static_cast<std::ptrdiff_t>(rank));
  return values;
}

/// The distance between images, or filters, that lie in `order` without gaps. Nothing if they lie
/// otherwise.
std::optional<std::int64_t> distance_in(const tensor_spec& s, channel_order order) {
  const auto shape = spatial_extents(s.shape);
  const auto image = s.shape[1] * product_of(shape);
  const auto distance = s.shape[0] > 1 ? s.strides[0] : image;
  const auto strides = strides_of(order, distance, s.shape[1], shape);
  if (s.shape[1] > 1 && s.strides[1] != strides.channel) return std::nullopt;
  const auto missing = shape.size() + 2 - s.rank();
  for (std::size_t i = 2; i < s.rank(); ++i) {
    if (s.shape[i] > 1 && s.strides[i] != strides.axes[i - 2 + missing]) return std::nullopt;
  }
  if (distance < image) return std::nullopt;
  return distance;
}

/// The dimensions in the order of memory, the outermost one first.
extents dimensions_in(channel_order order, std::size_t rank) {
  extents dimensions{0};
  if (order == channel_order::first) dimensions.push_back(1);
  for (std::size_t i = 2; i < rank; ++i) dimensions.push_back(static_cast<std::int64_t>(i));
  if (order == channel_order::last) dimensions.push_back(1);
  return dimensions;
}

/// Refuses a bias that does not fit the channels of the result.
void check_bias(const inference& inference, const operand& operand, element_type type,
                std::int64_t channels, bool is_transposed) {
  const auto& s = inference.require(operand);
  require_same_type(inference, operand, s, type, "x");
  if (s.rank() != 1 || s.shape[0] != channels) {
    throw inference.refusal(operand, "has the shape ", s.shape, ", but there are ",
                            std::to_string(channels),
                            is_transposed ? " channels of y" : " filters");
  }
}

void check_residual(const inference& inference, const operand& operand, element_type type,
                    const extents& shape) {
  const auto& s = inference.require(operand);
  require_same_type(inference, operand, s, type, "x");
  if (s.shape != shape) {
    throw inference.refusal(operand, "has the shape ", s.shape, ", but y has ", shape);
  }
}

/// The epilogue for which cuDNN has kernels on tensor cores. It compiles those with other
/// activations, or without a bias, when a plan is made, which takes 0.2 to 2 s. They read 16 bytes
/// of the bias at once, whatever alignment its descriptor states (cuDNN 9.14).
convolution_epilogue epilogue_of(const convolution_request& op, const inference& inference) {
  if (op.residual || op.geometry.is_transposed) return convolution_epilogue::none;
  const auto* bias = inference.given(op.bias);
  if (bias == nullptr || bias->alignment < convolution_key::max_alignment) {
    return convolution_epilogue::none;
  }
  if (op.activation == activation::none) return convolution_epilogue::bias;
  return op.activation == activation::relu ? convolution_epilogue::bias_relu
                                           : convolution_epilogue::none;
}

/// Adds to the key what only plans of cuDNN depend on.
void add_library_choice(convolution_key& key, const convolution_request& op,
                        const inference& inference) {
  key.tf32 = op.math == math_mode::tf32 && key.type() == element_type::f32 ? 1 : 0;
  std::size_t alignment = convolution_key::max_alignment;
  for (const auto* operand : {&op.x, &op.w, &op.y}) {
    if (const auto* spec = inference.given(*operand)) {
      alignment = std::min(alignment, spec->alignment);
    }
  }
  key.alignment = static_cast<std::int64_t>(alignment);
  if (key.uses_graphs() && key.uses_tensor_cores()) key.epilogue = epilogue_of(op, inference);
}

/// Sets the numbers of one dimension. A plan does not depend on the dilation of an only tap, nor on
/// a stride that leads from an only output beyond the padded input: the shortest such stride stands
/// for all. (cuDNN refuses a stride that leads to more outputs.) It does not depend on padding that
/// no output meets either, so the padding is equal at both ends if it can be.
void set_axis(convolution_shape& shape, std::size_t axis, const convolution_geometry& g) {
  const auto input = shape.input[axis];
  const auto outputs = shape.output[axis];
  const auto taps = shape.taps[axis];
  const auto before = g.before[axis];
  // What makes a result longer needs less padding: the last outputs end before its end.
  const auto after = g.after[axis] - g.output_padding[axis];
  const auto dilation = taps > 1 ? g.dilation[axis] : 1;
  const auto reach = dilation * (taps - 1);
  /// From the first window to the first one beyond an input with this padding after it.
  const auto range = [&](std::int64_t padding) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(input + before, padding, &sum)) {
      return std::numeric_limits<std::int64_t>::max();
    }
    return sum - reach;
  };
  const auto stride =
      outputs > 1 ? g.stride[axis] : std::max(range(std::max(before, after)), std::int64_t{1});
  const auto states_outputs = [&](std::int64_t padding) {
    return padding >= 0 && range(padding) > 0 && (range(padding) - 1) / stride + 1 == outputs;
  };
  shape.before[axis] = before;
  shape.after[axis] = convolution_shape::unknown;
  for (const auto padding : {before, after, std::int64_t{0}}) {
    if (!states_outputs(padding)) continue;
    shape.after[axis] = padding;
    break;
  }
  shape.stride[axis] = stride;
  shape.dilation[axis] = dilation;
}

convolution_key key_of(const convolution_request& op, const inference& inference,
                       channel_order order, std::int64_t y_distance) {
  const auto& x = inference.require(op.x);
  const auto& w = inference.require(op.w);
  const auto& y = inference.require(op.y);
  const bool is_transposed = op.geometry.is_transposed;
  const auto& input = is_transposed ? y : x;
  const auto& output = is_transposed ? x : y;
  convolution_key key{{.n = x.shape[0],
                       .c = input.shape[1],
                       .k = output.shape[1],
                       .input = spatial_extents(input.shape),
                       .taps = spatial_extents(w.shape),
                       .output = spatial_extents(output.shape),
                       .groups = op.geometry.groups,
                       .order = order,
                       .x_distance = *distance_in(x, order),
                       .y_distance = y_distance,
                       .element = static_cast<std::int64_t>(x.type),
                       .transposed = is_transposed ? 1 : 0}};
  for (std::size_t axis = 0; axis < key.input.size(); ++axis) set_axis(key, axis, op.geometry);
  add_library_choice(key, op, inference);
  return key;
}

}  // namespace

convolution_call infer_convolution(const convolution_request& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (x.type != element_type::f16 && x.type != element_type::bf16 && x.type != element_type::f32) {
    throw inference.refusal(op.x, "is of type ", x.type, ", but ", op.name,
                            " takes f16, bf16 and f32");
  }
  const auto& w = inference.require(op.w);
  require_same_type(inference, op.w, w, x.type, "x");
  require_enumerator("activation", op.activation, activation::tanh);
  require_enumerator("math", op.math, math_mode::tf32);
  const auto shape = convolution_result(x.shape, w.shape, op.geometry);
  inference.couple_from(op.x, 1);
  // Each filter has a channel of Y of its own, except in groups.
  if (op.geometry.groups == 1 && op.geometry.is_transposed) {
    inference.couple(op.w, 0);
    inference.couple_from(op.w, 2);
  } else {
    inference.couple_from(op.w, op.geometry.groups == 1 ? 1 : 0);
  }
  if (op.bias) check_bias(inference, op.bias, x.type, shape[1], op.geometry.is_transposed);
  if (op.residual) check_residual(inference, op.residual, x.type, shape);
  const bool multiplies = x.size() != 0 && w.size() != 0;

  convolution_call call{
      .output = {.images = shape[0], .channels = shape[1], .shape = spatial_extents(shape)},
      .type = x.type,
      .function = op.activation};
  const auto* y = op.y ? &inference.result(op.y, x.type, shape) : nullptr;
  // The launch has one order: that of X, or of the others if X lies in both or in neither.
  const auto decide = [&] {
    if (multiplies) {
      const bool first = distance_in(x, channel_order::first).has_value();
      const bool last = distance_in(x, channel_order::last).has_value();
      if (first != last) return first ? channel_order::first : channel_order::last;
    }
    const auto fit = [&](channel_order o) {
      return (!multiplies || distance_in(w, o)) && (y == nullptr || distance_in(*y, o));
    };
    return !fit(channel_order::first) && fit(channel_order::last) ? channel_order::last
                                                                  : channel_order::first;
  };
  const auto order = decide();
  const auto dimensions = dimensions_in(order, x.rank());
  if (y == nullptr) y = &inference.result(op.y, x.type, shape, dimensions);
  if (!multiplies) {
    inference.ignore(op.x);
    inference.ignore(op.w);
  }
  if (y->size() == 0) {
    for (const auto* operand : {&op.x, &op.w, &op.bias, &op.residual, &op.y}) {
      inference.ignore(*operand);
    }
    return call;
  }
  /// The distance between images of an operand, which is packed if it lies in another order.
  const auto place = [&](const operand& operand) {
    const auto& s = inference.require(operand);
    if (!distance_in(s, order)) inference.pack(operand, s.shape, dimensions);
    return *distance_in(s, order);
  };
  if (op.bias) inference.make_contiguous(op.bias);
  if (op.residual) call.output.residual_distance = place(op.residual);
  call.output.order = order;
  call.output.distance = place(op.y);
  if (!multiplies) return call;

  (void)place(op.x);
  std::int64_t filter = 1;
  for (std::size_t i = 1; i < w.rank(); ++i) filter *= w.shape[i];
  if (distance_in(w, order) != filter) inference.pack(op.w, w.shape, dimensions);
  call.multiplies = true;
  call.key = key_of(op, inference, order, call.output.distance);
  return call;
}

}  // namespace sluice::operations
