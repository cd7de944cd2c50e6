// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/direct_convolution.hpp"

#include "operations/elementwise/activations.hpp"
#include "operations/elementwise/f32_loops.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice::host {
namespace {

using operations::convolution_output;
using operations::convolution_shape;

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

/// The elements of the input and of the output that a tap joins along one dimension.
struct tap_range {
  std::int64_t input;   ///< the first element of the input
  std::int64_t output;  ///< the first element of the output
  std::int64_t count;
};
tap_range range_of(const convolution_shape& key, std::size_t axis, std::int64_t tap) noexcept {
  const auto offset = tap * key.dilation[axis] - key.before[axis];
  const auto outputs = outputs_inside(key.output[axis], key.input[axis], key.stride[axis], offset);
  if (outputs.last <= outputs.first) return {0, 0, 0};
  return {outputs.first * key.stride[axis] + offset, outputs.first, outputs.last - outputs.first};
}

/// Adds one channel of x, under one filter, to one channel of y.
void add_plane(const convolution_shape& key, const float* x, const float* w, float* y) noexcept {
  const auto is = key.input_strides().axes;
  const auto ws = key.w_strides().axes;
  const auto os = key.output_strides().axes;
  const auto add = [&](const tap_range& columns, float factor, std::int64_t input,
                       std::int64_t output) {
    input += columns.input * is[2];
    output += columns.output * os[2];
    // Of one element there is no next one, and the product may overflow.
    const auto input_step = columns.count > 1 ? key.stride[2] * is[2] : 0;
    if (key.is_transposed()) {
      add_row(columns.count, factor, x + output, os[2], y + input, input_step);
    } else {
      add_row(columns.count, factor, x + input, input_step, y + output, os[2]);
    }
  };
  for (std::int64_t q = 0; q < key.taps[0]; ++q) {
    const auto slices = range_of(key, 0, q);
    for (std::int64_t r = 0; r < key.taps[1]; ++r) {
      const auto rows = range_of(key, 1, r);
      for (std::int64_t s = 0; s < key.taps[2]; ++s) {
        const auto columns = range_of(key, 2, s);
        if (columns.count == 0) continue;
        const auto factor = w[q * ws[0] + r * ws[1] + s * ws[2]];
        for (std::int64_t o = 0; o < slices.count; ++o) {
          for (std::int64_t p = 0; p < rows.count; ++p) {
            add(columns, factor,
                (slices.input + o * key.stride[0]) * is[0] +
                    (rows.input + p * key.stride[1]) * is[1],
                (slices.output + o) * os[0] + (rows.output + p) * os[1]);
          }
        }
      }
    }
  }
}

/// Calls `visit` with each image of a result.
template <class Visit>
void for_each_image(const convolution_output& output, float* y, Visit&& visit) noexcept {
  for (std::int64_t n = 0; n < output.images; ++n) visit(y + n * output.distance);
}

}  // namespace

void fill_with_bias(const convolution_output& output, const float* bias, float* y) noexcept {
  const auto step = output.channel_stride();
  for_each_image(output, y, [&](float* image) {
    for (std::int64_t i = 0; i < output.image(); ++i) {
      image[i] = bias == nullptr ? 0.0F : bias[i / step % output.channels];
    }
  });
}

void finish(activation function, const float* residual, std::int64_t count, float* y) {
  if (residual != nullptr) binary_f32(binary_function::add, y, residual, count, y);
  operations::with_function(function, [&](auto unary) {
    constexpr float alpha = operations::activation_alpha;
    constexpr float beta = operations::activation_beta;
    unary_f32({unary.value, alpha, beta}, y, count, y);
  });
}

void finish(const convolution_output& output, activation function, const float* residual,
            float* y) {
  for (std::int64_t n = 0; n < output.images; ++n) {
    finish(function, residual == nullptr ? nullptr : residual + n * output.residual_distance,
           output.image(), y + n * output.distance);
  }
}

void add_products(const convolution_shape& key, const float* x, const float* w, float* y) noexcept {
  const auto is = key.input_strides();
  const auto ws = key.w_strides();
  const auto os = key.output_strides();
  const auto group_channels = key.c / key.groups;
  const auto group_filters = key.k / key.groups;
  for (std::int64_t n = 0; n < key.n; ++n) {
    for (std::int64_t k = 0; k < key.k; ++k) {
      const auto output = n * os.image + k * os.channel;
      const auto first_channel = k / group_filters * group_channels;
      for (std::int64_t c = 0; c < group_channels; ++c) {
        const auto input = n * is.image + (first_channel + c) * is.channel;
        add_plane(key, x + (key.is_transposed() ? output : input),
                  w + k * ws.image + c * ws.channel, y + (key.is_transposed() ? input : output));
      }
    }
  }
}

}  // namespace sluice::host
