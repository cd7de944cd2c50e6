// SPDX-License-Identifier: Apache-2.0
#include "models/operator_table.hpp"
#include "models/window.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/convolution.hpp>
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/quantization.hpp>

#include <algorithm>
#include <array>

namespace sluice::models {

namespace {

/// The window of a convolution with the filters `w`.
window read_filters(const node& n, const value& x, const value& w) {
  if (w.rank() < 3 || w.rank() > 5) {
    throw n.unsupported("W", "has " + std::to_string(w.rank()) + " dimensions");
  }
  const auto shape = w.shape();
  const std::vector<std::int64_t> kernel(shape.begin() + 2, shape.end());
  if (n.attribute("kernel_shape", kernel) != kernel) {
    throw n.refusal("kernel_shape", "is not that of the filters of the shape " + to_string(shape));
  }
  return read_window(n, x, extents(kernel));
}
std::int64_t groups_of(const node& n) {
  return n.attribute("group", std::int64_t{1});
}

/// The dimensions of (N, C, D1 …) in the order N, D1 …, C.
extents channels_last(std::size_t rank) {
  extents order{0};
  for (std::size_t i = 2; i < rank; ++i) order.push_back(static_cast<std::int64_t>(i));
  order.push_back(1);
  return order;
}
bool lies_channels_last(const value& x) {
  return x.layout().permute(channels_last(x.rank())).is_contiguous();
}
/// A copy that lies channels-last.
value copied_channels_last(const node& n, const value& x) {
  extents channels_first{0, static_cast<std::int64_t>(x.rank()) - 1};
  for (std::size_t i = 2; i < x.rank(); ++i) {
    channels_first.push_back(static_cast<std::int64_t>(i) - 1);
  }
  return n.add(strided_copy{.x = x.permute(channels_last(x.rank()))}).permute(channels_first);
}

/// Known filters, in the order of the images in memory. A host device copies them once, where each
/// run would pack them.
value filters_in_order(const node& n, const value& x, const value& w) {
  if (!w.known() || x.rank() != w.rank() || x.layout().is_contiguous()) return w;
  return !lies_channels_last(x) || lies_channels_last(w) ? w : copied_channels_last(n, w);
}
/// Images of 16 bits, channels-last: tensor cores take them so. The results lie so as well, and
/// therefore the images of the next convolution.
value images_in_order(const node& n, const value& x) {
  const bool is_short = x.type() == element_type::f16 || x.type() == element_type::bf16;
  if (!n.optimizes() || !is_short || x.rank() < 3 || x.size() == 0 || lies_channels_last(x))
    return x;
  n.note_optimization("channels_last");
  return copied_channels_last(n, x);
}

results import_conv(const node& n) {
  const auto x = images_in_order(n, n.input(0));
  const auto w = read_filters(n, x, n.input(1));
  return n.add(convolution{.x = x,
                           .w = filters_in_order(n, x, n.input(1)),
                           .bias = n.optional_input(2),
                           .strides = w.strides,
                           .before = w.before,
                           .after = w.after,
                           .dilation = w.dilations,
                           .groups = groups_of(n)});
}

results import_transposed_convolution(const node& n) {
  const auto& x = n.input(0);
  auto w = read_filters(n, x, n.input(1));
  const auto count = w.kernel.size();
  const auto automatic = n.attribute("auto_pad", "NOTSET");
  const bool is_same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  auto padding = window_numbers(n, "output_padding", extents(std::vector<std::int64_t>(count, 0)));
  if (is_same || n.has_attribute("output_shape")) {
    extents shape;
    for (std::size_t i = 0; i < count; ++i) shape.push_back(x.extent(i + 2) * w.strides[i]);
    if (n.has_attribute("output_shape")) shape = window_numbers(n, "output_shape", shape);
    for (std::size_t i = 0; i < count; ++i) {
      const auto reach = w.dilations[i] * (w.kernel[i] - 1) + 1;
      const auto whole = w.strides[i] * (x.extent(i + 2) - 1) + padding[i] + reach;
      padding[i] += std::max(shape[i] - whole, std::int64_t{0});
      const auto cut = std::max(whole - shape[i], std::int64_t{0});
      w.before[i] = automatic == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
      w.after[i] = cut - w.before[i];
    }
  }
  return n.add(transposed_convolution{.x = x,
                                      .w = filters_in_order(n, x, n.input(1)),
                                      .bias = n.optional_input(2),
                                      .strides = w.strides,
                                      .before = w.before,
                                      .after = w.after,
                                      .output_padding = padding,
                                      .dilation = w.dilations,
                                      .groups = groups_of(n)});
}

/// The sums of products of bytes without their zero points, as i32.
value convolve_bytes(const node& n, const value& x, const value& filters, std::size_t x_zero,
                     std::size_t filters_zero) {
  const auto w = read_filters(n, x, filters);
  const auto zero_point = [&](std::size_t number) -> operand {
    if (!n.has_input(number)) return {};
    const auto& zero = n.input(number);
    return zero.size() == 1 ? zero.reshape({}) : zero;
  };
  return n.add(integer_convolution{.x = x,
                                   .w = filters,
                                   .x_zero_point = zero_point(x_zero),
                                   .w_zero_point = zero_point(filters_zero),
                                   .strides = w.strides,
                                   .before = w.before,
                                   .after = w.after,
                                   .dilation = w.dilations,
                                   .groups = groups_of(n)});
}
results import_integer_convolution(const node& n) {
  return convolve_bytes(n, n.input(0), n.input(1), 2, 3);
}
/// One number, or one for each channel, as a factor of (N, C, D1 …) with `rank` dimensions.
value for_channels(const value& parameter, std::size_t rank) {
  if (parameter.size() == 1) return parameter.reshape({});
  extents shape{-1};
  while (shape.size() + 1 < rank) shape.push_back(1);
  return parameter.reshape(shape);
}
results import_quantized_convolution(const node& n) {
  const auto f32 = element_type::f32;
  auto sums = convolve_bytes(n, n.input(0), n.input(3), 2, 5);
  const auto rank = sums.rank();
  if (n.has_input(8)) sums = n.add(add(sums, for_channels(n.input(8), rank)));
  const auto scale = n.add(multiply(n.cast_to(n.input(1), f32), n.cast_to(n.input(4), f32)));
  return n.add(quantize{.x = n.add(multiply(n.cast_to(sums, f32), for_channels(scale, rank))),
                        .scale = n.cast_to(n.input(6), f32).reshape({}),
                        .zero_point = n.input(7).reshape({}),
                        .type = n.input(7).type()});
}

constexpr std::array convolution_entries{
    operator_entry{"Conv", import_conv},
    operator_entry{"ConvInteger", import_integer_convolution},
    operator_entry{"ConvTranspose", import_transposed_convolution},
    operator_entry{"QLinearConv", import_quantized_convolution},
};

}  // namespace

std::span<const operator_entry> convolution_operators() {
  return convolution_entries;
}

}  // namespace sluice::models
