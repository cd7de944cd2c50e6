// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/dnn/conv2d_functions.hpp"
#include "operations/elementwise/layouts.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice {
namespace {

using operations::channel_order;
using operations::conv2d_call;
using operations::conv2d_key;
using operations::conv2d_shape;

/// `Function`, or nullptr in a build without oneDNN.
template <auto* Function>
[[nodiscard]] constexpr decltype(Function) with_onednn() noexcept {
#ifdef SLUICE_HAS_ONEDNN
  return Function;
#else
  return nullptr;
#endif
}
/// `Function`, or nullptr in a build without cuDNN.
template <auto* Function>
[[nodiscard]] constexpr decltype(Function) with_cudnn() noexcept {
#ifdef SLUICE_HAS_CUDNN
  return Function;
#else
  return nullptr;
#endif
}

/// The distance between images, or filters, that lie in `order` without gaps. Nothing if they lie
/// otherwise.
std::optional<std::int64_t> distance_in(const tensor_spec& s, channel_order order) {
  const auto image = s.shape[1] * s.shape[2] * s.shape[3];
  const auto distance = s.shape[0] > 1 ? s.strides[0] : image;
  const auto strides = operations::strides_of(order, distance, s.shape[1], s.shape[2], s.shape[3]);
  const std::array expected{distance, strides.channel, strides.row, strides.column};
  for (std::size_t i = 1; i < expected.size(); ++i) {
    if (s.shape[i] > 1 && s.strides[i] != expected[i]) return std::nullopt;
  }
  if (distance < image) return std::nullopt;
  return distance;
}

/// The dimensions in the order of memory, the outermost one first.
extents dimensions_in(channel_order order) {
  return order == channel_order::first ? extents{0, 1, 2, 3} : extents{0, 2, 3, 1};
}

/// Refuses a bias that does not fit `filters`.
void check_bias(const inference& inference, const operand& operand, element_type type,
                std::int64_t filters) {
  const auto& s = inference.require(operand);
  operations::require_same_type(inference, operand, s, type, "x");
  if (s.rank() != 1 || s.shape[0] != filters) {
    throw inference.refusal(operand, "has the shape ", s.shape, ", but there are ", filters,
                            " filters");
  }
}

/// The epilogue for which cuDNN has kernels on tensor cores. It compiles those with other
/// activations, or without a bias, when a plan is made, which takes 0.2 to 2 s.
operations::conv2d_epilogue epilogue_of(const conv2d& op) {
  using operations::conv2d_epilogue;
  if (!op.bias) return conv2d_epilogue::none;
  if (op.activation == activation::none) return conv2d_epilogue::bias;
  return op.activation == activation::relu ? conv2d_epilogue::bias_relu : conv2d_epilogue::none;
}

/// What a plan of cuDNN depends on.
conv2d_key key_of(const conv2d& op, const inference& inference, const conv2d_shape& shape) {
  conv2d_key key{shape};
  key.tf32 = op.math == math_mode::tf32 && shape.type() == element_type::f32 ? 1 : 0;
  if (!key.uses_tensor_cores()) return key;
  std::size_t alignment = 16;
  for (const auto* operand : {&op.x, &op.w, &op.bias, &op.y}) {
    if (const auto* spec = inference.given(*operand)) {
      alignment = std::min(alignment, spec->alignment);
    }
  }
  key.alignment = static_cast<std::int64_t>(alignment);
  key.epilogue = epilogue_of(op);
  return key;
}

conv2d_call infer(const conv2d& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (x.type != element_type::f16 && x.type != element_type::bf16 && x.type != element_type::f32) {
    throw inference.refusal(op.x, "is of type ", x.type, ", but conv2d takes f16, bf16 and f32");
  }
  const auto& w = inference.require(op.w);
  operations::require_same_type(inference, op.w, w, x.type, "x");
  operations::require_enumerator("activation", op.activation, activation::tanh);
  operations::require_enumerator("math", op.math, math_mode::tf32);
  const auto& g = op.geometry;
  const auto shape = conv2d_output_shape(x.shape, w.shape, g);
  inference.couple_from(op.x, 1);
  inference.couple_from(op.w, g.groups == 1 ? 1 : 0);
  if (op.bias) check_bias(inference, op.bias, x.type, shape[1]);
  const bool multiplies = x.size() != 0 && w.size() != 0;

  conv2d_call call{
      .output = {.images = shape[0], .channels = shape[1], .h = shape[2], .w = shape[3]},
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
  if (y == nullptr) y = &inference.result(op.y, x.type, shape, dimensions_in(order));
  if (!multiplies) {
    inference.ignore(op.x);
    inference.ignore(op.w);
  }
  if (y->size() == 0) {
    for (const auto* operand : {&op.x, &op.w, &op.bias, &op.y}) inference.ignore(*operand);
    return call;
  }
  const auto pack = [&](const operand& operand, const tensor_spec& s) {
    inference.pack(operand, s.shape, dimensions_in(order));
  };
  if (op.bias) inference.make_contiguous(op.bias);
  if (!distance_in(*y, order)) pack(op.y, *y);
  call.output.order = order;
  call.output.distance = *distance_in(*y, order);
  if (!multiplies) return call;

  if (!distance_in(x, order)) pack(op.x, x);
  if (distance_in(w, order) != w.shape[1] * w.shape[2] * w.shape[3]) pack(op.w, w);
  call.multiplies = true;
  // A plan does not depend on the dilation of an only tap, nor on a stride that leads from an only
  // output beyond the padded x: the shortest such stride stands for all. (cuDNN refuses a stride
  // that leads to more outputs.)
  const auto dilation = [](std::int64_t taps, std::int64_t value) {
    return taps > 1 ? value : 1;
  };
  const auto stride = [](std::int64_t outputs, std::int64_t value, std::int64_t beyond) {
    return outputs > 1 ? value : beyond;
  };
  const auto dilation_h = dilation(w.shape[2], g.dilation.h);
  const auto dilation_w = dilation(w.shape[3], g.dilation.w);
  call.key = key_of(
      op, inference,
      conv2d_shape{.n = x.shape[0],
                   .c = x.shape[1],
                   .h = x.shape[2],
                   .w = x.shape[3],
                   .k = w.shape[0],
                   .r = w.shape[2],
                   .s = w.shape[3],
                   .output_h = shape[2],
                   .output_w = shape[3],
                   .padding_h = g.padding.h,
                   .padding_w = g.padding.w,
                   .stride_h = stride(shape[2], g.stride.h,
                                      x.shape[2] + 2 * g.padding.h - dilation_h * (w.shape[2] - 1)),
                   .stride_w = stride(shape[3], g.stride.w,
                                      x.shape[3] + 2 * g.padding.w - dilation_w * (w.shape[3] - 1)),
                   .dilation_h = dilation_h,
                   .dilation_w = dilation_w,
                   .groups = g.groups,
                   .order = order,
                   .x_distance = *distance_in(x, order),
                   .y_distance = call.output.distance,
                   .element = static_cast<std::int64_t>(x.type)});
  return call;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<conv2d>) {
  static const typed_operation_descriptor<conv2d, conv2d_call> descriptor(
      {.name = "conv2d",
       .infer = infer,
       .host = {.library = "oneDNN",
                .version = with_onednn<host::dnn_version>(),
                .prepare = with_onednn<host::prepare_dnn>(),
                .make_plan = with_onednn<host::make_conv2d_plan>()},
       .compute = with_onednn<host::compute_conv2d>(),
       .cuda = {.library = "cuDNN",
                .version = with_cudnn<cuda::dnn_version>(),
                .prepare = with_cudnn<cuda::prepare_dnn>(),
                .check = with_cudnn<cuda::check_conv2d>(),
                .make_plan = with_cudnn<cuda::make_conv2d_plan>()},
       .enqueue = with_cudnn<cuda::enqueue_conv2d>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
