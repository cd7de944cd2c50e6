// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/direct_convolution.hpp"

#include "operations/elementwise/activations.hpp"
#include "operations/elementwise/f32_loops.hpp"

#include <algorithm>

namespace sluice::host {
namespace {

using operations::conv2d_key;
using operations::conv2d_output;

/// The outputs along one dimension for which a tap meets the input.
struct output_range {
  std::int64_t first;
  std::int64_t last;  // behind the last one
};

/// The output `o` meets the input at `o * stride + offset`.
output_range outputs_inside(std::int64_t outputs, std::int64_t inputs, std::int64_t stride,
                            std::int64_t offset) noexcept {
  const auto first = offset >= 0 ? 0 : (-offset - 1) / stride + 1;
  const auto last = inputs <= offset ? 0 : (inputs - offset - 1) / stride + 1;
  return {std::min(first, outputs), std::min(last, outputs)};
}

/// y[i · y_step] += factor · x[i · x_step] for i in [0, count).
void add_row(std::int64_t count, float factor, const float* x, std::int64_t x_step, float* y,
             std::int64_t y_step) noexcept {
  if (x_step == 1 && y_step == 1) {
    for (std::int64_t i = 0; i < count; ++i) y[i] += factor * x[i];
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) y[i * y_step] += factor * x[i * x_step];
}

/// Adds one channel of x, under one filter, to one channel of y.
void add_plane(const conv2d_key& key, const float* x, const float* w, float* y) noexcept {
  const auto xs = key.x_strides();
  const auto ws = key.w_strides();
  const auto ys = key.y_strides();
  for (std::int64_t r = 0; r < key.r; ++r) {
    const auto row_offset = r * key.dilation_h - key.padding_h;
    const auto rows = outputs_inside(key.output_h, key.h, key.stride_h, row_offset);
    for (std::int64_t s = 0; s < key.s; ++s) {
      const auto offset = s * key.dilation_w - key.padding_w;
      const auto columns = outputs_inside(key.output_w, key.w, key.stride_w, offset);
      const auto count = columns.last - columns.first;
      if (count <= 0) continue;
      const auto factor = w[r * ws.row + s * ws.column];
      for (auto p = rows.first; p < rows.last; ++p) {
        add_row(count, factor,
                x + (p * key.stride_h + row_offset) * xs.row +
                    (columns.first * key.stride_w + offset) * xs.column,
                // Of one element there is no next one, and the product may overflow.
                count > 1 ? key.stride_w * xs.column : 0,
                y + p * ys.row + columns.first * ys.column, ys.column);
      }
    }
  }
}

/// Calls `visit` with each image of a result.
template <class Visit>
void for_each_image(const conv2d_output& output, float* y, Visit&& visit) noexcept {
  for (std::int64_t n = 0; n < output.images; ++n) visit(y + n * output.distance);
}

}  // namespace

void fill_with_bias(const conv2d_output& output, const float* bias, float* y) noexcept {
  const auto step = output.channel_stride();
  for_each_image(output, y, [&](float* image) {
    for (std::int64_t i = 0; i < output.image(); ++i) {
      image[i] = bias == nullptr ? 0.0F : bias[i / step % output.channels];
    }
  });
}

void activate(const conv2d_output& output, activation function, float* y) {
  operations::with_function(function, [&](auto unary) {
    constexpr float alpha = operations::activation_alpha;
    constexpr float beta = operations::activation_beta;
    for_each_image(output, y, [&](float* image) {
      unary_f32({unary.value, alpha, beta}, image, output.image(), image);
    });
  });
}

void add_products(const conv2d_key& key, const float* x, const float* w, float* y) noexcept {
  const auto xs = key.x_strides();
  const auto ws = key.w_strides();
  const auto ys = key.y_strides();
  const auto group_channels = key.c / key.groups;
  const auto group_filters = key.k / key.groups;
  for (std::int64_t n = 0; n < key.n; ++n) {
    for (std::int64_t k = 0; k < key.k; ++k) {
      const auto first_channel = k / group_filters * group_channels;
      for (std::int64_t c = 0; c < group_channels; ++c) {
        add_plane(key, x + n * xs.image + (first_channel + c) * xs.channel,
                  w + k * ws.image + c * ws.channel, y + n * ys.image + k * ys.channel);
      }
    }
  }
}

}  // namespace sluice::host
