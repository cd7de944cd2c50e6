// SPDX-License-Identifier: Apache-2.0
#include "models/join.hpp"
#include "models/operator_table.hpp"
#include "models/products.hpp"
#include "models/window.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/movement.hpp>
#include <sluice/operations/quantization.hpp>
#include <sluice/operations/rearrangement.hpp>

#include <algorithm>
#include <array>

namespace sluice::models {

namespace {

/// A tensor with one spatial dimension as an image of the height 1.
value as_image(const value& x) {
  return x.rank() == 3 ? x.unsqueeze(2) : x;
}

results import_conv(const node& n) {
  const auto& x = n.input(0);
  const auto& filters = n.input(1);
  if (filters.rank() < 2) throw n.refusal("W", "has less than two dimensions");
  const auto filter = filters.shape();
  const std::vector<std::int64_t> kernel(filter.begin() + 2, filter.end());
  const auto w = read_window(n, x, extents(n.attribute("kernel_shape", kernel)));
  if (kernel.empty() || kernel.size() > 2) {
    throw n.unsupported("X", "has " + std::to_string(kernel.size()) + " spatial dimensions");
  }
  const bool flat = kernel.size() == 1;
  const auto height = [&](const extents& numbers, std::int64_t missing) {
    return flat ? missing : numbers[0];
  };
  const auto width = [&](const extents& numbers) {
    return numbers[flat ? 0 : 1];
  };
  auto image = as_image(x);
  conv2d_geometry geometry{
      .padding = {.h = height(w.before, 0), .w = width(w.before)},
      .stride = {.h = height(w.strides, 1), .w = width(w.strides)},
      .dilation = {.h = height(w.dilations, 1), .w = width(w.dilations)},
      .groups = n.attribute("group", std::int64_t{1}),
  };
  if (w.before != w.after) {  // The convolution itself pads both ends alike.
    image = n.add(pad{.x = image,
                      .before = {0, 0, height(w.before, 0), width(w.before)},
                      .after = {0, 0, height(w.after, 0), width(w.after)}});
    geometry.padding = {};
  }
  auto y = n.add(conv2d{
      .x = image, .w = as_image(filters), .bias = n.optional_input(2), .geometry = geometry});
  if (!flat) return y;
  const auto shape = y.shape();
  return y.reshape({shape[0], shape[1], shape[3]});
}

/// The sums of products of bytes without their zero points, as i32: windows as columns, and the
/// products of filters and columns. Padding is the zero point.
value convolve_bytes(const node& n, const value& x, const value& filters, std::int64_t x_zero,
                     const value* filters_zero) {
  if (x.rank() != 4 || filters.rank() != 4) throw n.unsupported("x", "is no stack of images");
  const auto kernel = extents{filters.extent(2), filters.extent(3)};
  const auto w = read_window(n, x, kernel);
  const auto groups = n.attribute("group", std::int64_t{1});
  if (groups < 1 || x.extent(1) % groups != 0 || filters.extent(0) % groups != 0) {
    throw n.refusal("group", "does not divide the channels");
  }
  const auto padded = n.add(pad{.x = x,
                                .before = {0, 0, w.before[0], w.before[1]},
                                .after = {0, 0, w.after[0], w.after[1]},
                                .value = x_zero});
  const auto rows = n.dense(filters).reshape({filters.extent(0), -1});
  const auto channels = x.extent(1) / groups;
  const auto count = filters.extent(0) / groups;
  const auto zero = n.number(x.type(), static_cast<double>(x_zero));
  std::vector<value> parts;
  for (std::int64_t g = 0; g < groups; ++g) {
    const auto columns = n.add(im2col{.x = padded.slice(1, g * channels, (g + 1) * channels),
                                      .window = kernel,
                                      .strides = w.strides,
                                      .dilation = w.dilations});
    std::optional<value> part_zero;
    if (filters_zero != nullptr) {
      part_zero = filters_zero->size() == 1
                      ? filters_zero->reshape({1})
                      : filters_zero->reshape({-1}).slice(0, g * count, (g + 1) * count);
    }
    parts.push_back(multiply_bytes(n, rows.slice(0, g * count, (g + 1) * count), columns,
                                   part_zero ? &*part_zero : nullptr, &zero));
  }
  const auto y = concatenate_values(n, std::move(parts), 1);
  const auto windows = [&](std::size_t d) {
    const auto reach = w.dilations[d] * (kernel[d] - 1) + 1;
    return (padded.extent(d + 2) - reach) / w.strides[d] + 1;
  };
  return y.reshape({x.extent(0), filters.extent(0), windows(0), windows(1)});
}
results import_integer_convolution(const node& n) {
  return convolve_bytes(n, n.input(0), n.input(1),
                        n.has_input(2) ? n.integer(2, "x_zero_point") : 0,
                        n.has_input(3) ? &n.input(3) : nullptr);
}
/// One number, or one for each channel, as a factor of (N, C, H, W).
value for_channels(const value& parameter) {
  return parameter.size() == 1 ? parameter.reshape({}) : parameter.reshape({-1, 1, 1});
}
results import_quantized_convolution(const node& n) {
  const auto f32 = element_type::f32;
  auto sums = convolve_bytes(n, n.input(0), n.input(3), n.integer(2, "x_zero_point"), &n.input(5));
  if (n.has_input(8)) sums = n.add(add(sums, for_channels(n.input(8))));
  const auto scale = n.add(multiply(n.cast_to(n.input(1), f32), n.cast_to(n.input(4), f32)));
  return n.add(quantize{.x = n.add(multiply(n.cast_to(sums, f32), for_channels(scale))),
                        .scale = n.cast_to(n.input(6), f32).reshape({}),
                        .zero_point = n.input(7).reshape({}),
                        .type = n.input(7).type()});
}

constexpr std::array convolution_entries{
    operator_entry{"Conv", import_conv},
    operator_entry{"ConvInteger", import_integer_convolution},
    operator_entry{"QLinearConv", import_quantized_convolution},
};

}  // namespace

std::span<const operator_entry> convolution_operators() {
  return convolution_entries;
}

}  // namespace sluice::models
