// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/dnn/conv2d_plan.hpp"
#include "tests/support/random_values.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice::test {

using actors::conv2d_description;

/// A convolution with its operands in host memory.
struct conv2d_problem {
  conv2d_description description{};
  std::vector<float> x{};
  std::vector<float> w{};
  std::vector<float> bias{};  ///< empty without a bias
};

inline nchw_shape output_shape(const conv2d_description& d) {
  const auto steps = [](std::int64_t length, std::int64_t padding, std::int64_t dilation,
                        std::int64_t taps, std::int64_t stride) {
    return (length + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
  };
  const auto& g = d.geometry;
  return {.n = d.input.n,
          .c = d.filter.k,
          .h = steps(d.input.h, g.padding.h, g.dilation.h, d.filter.r, g.stride.h),
          .w = steps(d.input.w, g.padding.w, g.dilation.w, d.filter.s, g.stride.w)};
}

/// A random convolution. Its output has at least four columns.
inline conv2d_description random_conv2d_description(std::mt19937_64& generator) {
  const auto draw = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(generator);
  };
  conv2d_description d;
  auto& filter = d.filter;
  auto& g = d.geometry;
  g.groups = draw(0, 1) == 0 ? 1 : draw(2, 5);
  filter = {.k = g.groups * draw(1, 6), .c = draw(1, 6), .r = draw(1, 5), .s = draw(1, 5)};
  g.padding = {.h = draw(0, filter.r + 1), .w = draw(0, filter.s + 1)};
  g.stride = {.h = draw(1, 3), .w = draw(1, 3)};
  g.dilation = {.h = draw(1, 3), .w = draw(1, 3)};
  const auto smallest = [](std::int64_t taps, std::int64_t dilation, std::int64_t padding) {
    return std::max<std::int64_t>(1, dilation * (taps - 1) + 1 - 2 * padding);
  };
  d.input = {.n = draw(1, 3),
             .c = g.groups * filter.c,
             .h = smallest(filter.r, g.dilation.h, g.padding.h) + draw(0, 14),
             .w = smallest(filter.s, g.dilation.w, g.padding.w) + draw(9, 23)};
  d.has_bias = draw(0, 1) == 1;
  d.activation = draw(0, 1) == 1 ? activation::relu : activation::none;
  return d;
}

/// A problem with random operands.
inline conv2d_problem random_conv2d(const conv2d_description& d, std::mt19937_64& generator) {
  const auto values = [&](std::int64_t count) {
    return random_values<float>(generator, static_cast<std::size_t>(count));
  };
  conv2d_problem p{.description = d};
  p.x = values(d.input.n * d.input.c * d.input.h * d.input.w);
  p.w = values(d.filter.k * d.filter.c * d.filter.r * d.filter.s);
  p.bias = values(d.has_bias ? d.filter.k : 0);
  return p;
}

/// The convolution by its definition.
inline std::vector<double> conv2d_reference(const conv2d_problem& p) {
  const auto& d = p.description;
  const auto& in = d.input;
  const auto& filter = d.filter;
  const auto& g = d.geometry;
  const auto out = output_shape(d);
  const std::int64_t filters_per_group = filter.k / g.groups;
  std::vector<double> y;
  for (std::int64_t image = 0; image < out.n; ++image) {
    for (std::int64_t k = 0; k < out.c; ++k) {
      for (std::int64_t row = 0; row < out.h; ++row) {
        for (std::int64_t column = 0; column < out.w; ++column) {
          double sum = d.has_bias ? p.bias[static_cast<std::size_t>(k)] : 0.0;
          for (std::int64_t c = 0; c < filter.c; ++c) {
            const std::int64_t channel = k / filters_per_group * filter.c + c;
            for (std::int64_t r = 0; r < filter.r; ++r) {
              for (std::int64_t s = 0; s < filter.s; ++s) {
                const std::int64_t h = row * g.stride.h - g.padding.h + r * g.dilation.h;
                const std::int64_t v = column * g.stride.w - g.padding.w + s * g.dilation.w;
                if (h < 0 || h >= in.h || v < 0 || v >= in.w) continue;
                const auto from_x =
                    static_cast<std::size_t>(((image * in.c + channel) * in.h + h) * in.w + v);
                const auto from_w =
                    static_cast<std::size_t>(((k * filter.c + c) * filter.r + r) * filter.s + s);
                sum += static_cast<double>(p.x[from_x]) * static_cast<double>(p.w[from_w]);
              }
            }
          }
          y.push_back(d.activation == activation::relu ? std::max(0.0, sum) : sum);
        }
      }
    }
  }
  return y;
}

}  // namespace sluice::test
