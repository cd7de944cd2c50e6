// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/elementwise/activation_reference.hpp"
#include "tests/operations/strided.hpp"
#include "tests/support/random_values.hpp"

#include <sluice/operations/dnn.hpp>
#include <sluice/operations/operation_descriptor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice::test {

/// Whether this build has a library for convolutions on devices of a kind.
[[nodiscard]] inline bool has_convolutions(device_kind kind) {
  return descriptor_of(operation_type<conv2d>{}).makes_plans(kind);
}

/// A convolution without its operands.
struct conv2d_description {
  extents x{};  ///< (N, C, H, W)
  extents w{};  ///< (K, C/groups, R, S)
  conv2d_geometry geometry{};
  bool has_bias = false;
  sluice::activation activation = sluice::activation::none;
  math_mode math = math_mode::f32;
};

/// A convolution with its operands in host memory, row-major without gaps.
struct conv2d_problem {
  conv2d_description description{};
  std::vector<float> x{};
  std::vector<float> w{};
  std::vector<float> bias{};  ///< empty without a bias
};

/// The shape of the result.
inline extents output_shape(const conv2d_description& d) {
  const auto steps = [](std::int64_t length, std::int64_t padding, std::int64_t dilation,
                        std::int64_t taps, std::int64_t stride) {
    return (length + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
  };
  const auto& g = d.geometry;
  return {d.x[0], d.w[0], steps(d.x[2], g.padding.h, g.dilation.h, d.w[2], g.stride.h),
          steps(d.x[3], g.padding.w, g.dilation.w, d.w[3], g.stride.w)};
}

/// The number of elements of a shape.
inline std::size_t element_count(const extents& shape) {
  std::size_t count = 1;
  for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

/// The number of products that are summed for one element of the result.
inline std::size_t terms(const conv2d_description& d) {
  return static_cast<std::size_t>(d.w[1] * d.w[2] * d.w[3]);
}

/// A random convolution. Its output has at least four columns.
inline conv2d_description random_conv2d_description(std::mt19937_64& generator) {
  const auto draw = [&](std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(generator);
  };
  conv2d_description d;
  auto& g = d.geometry;
  g.groups = draw(0, 1) == 0 ? 1 : draw(2, 5);
  const auto filters = g.groups * draw(1, 6);
  const auto channels = draw(1, 6);
  const auto r = draw(1, 5);
  const auto s = draw(1, 5);
  d.w = {filters, channels, r, s};
  g.padding.h = draw(0, r + 1);
  g.padding.w = draw(0, s + 1);
  g.stride = {.h = draw(1, 3), .w = draw(1, 3)};
  g.dilation = {.h = draw(1, 3), .w = draw(1, 3)};
  const auto smallest = [](std::int64_t taps, std::int64_t dilation, std::int64_t padding) {
    return std::max<std::int64_t>(1, dilation * (taps - 1) + 1 - 2 * padding);
  };
  const auto n = draw(1, 3);
  const auto h = smallest(r, g.dilation.h, g.padding.h) + draw(0, 14);
  d.x = {n, g.groups * channels, h, smallest(s, g.dilation.w, g.padding.w) + draw(9, 23)};
  d.has_bias = draw(0, 1) == 1;
  d.activation = all_activations[static_cast<std::size_t>(
      draw(0, static_cast<std::int64_t>(all_activations.size()) - 1))];
  return d;
}

/// A problem with random operands.
inline conv2d_problem random_conv2d(const conv2d_description& d, std::mt19937_64& generator) {
  conv2d_problem p{.description = d};
  p.x = random_values<float>(generator, element_count(d.x));
  p.w = random_values<float>(generator, element_count(d.w));
  p.bias = random_values<float>(generator, d.has_bias ? static_cast<std::size_t>(d.w[0]) : 0);
  return p;
}

/// The result by its definition, row-major.
inline std::vector<double> conv2d_reference(const conv2d_problem& p) {
  const auto& d = p.description;
  const auto& g = d.geometry;
  const auto filters_per_group = d.w[0] / g.groups;
  std::vector<double> y;
  for_each_index(output_shape(d), [&](const extents& index) {
    const auto image = index[0], k = index[1];
    double sum = d.has_bias ? p.bias[static_cast<std::size_t>(k)] : 0.0;
    for (std::int64_t c = 0; c < d.w[1]; ++c) {
      const auto channel = k / filters_per_group * d.w[1] + c;
      for (std::int64_t r = 0; r < d.w[2]; ++r) {
        const auto row = index[2] * g.stride.h - g.padding.h + r * g.dilation.h;
        if (row < 0 || row >= d.x[2]) continue;
        for (std::int64_t s = 0; s < d.w[3]; ++s) {
          const auto column = index[3] * g.stride.w - g.padding.w + s * g.dilation.w;
          if (column < 0 || column >= d.x[3]) continue;
          const auto from_x = ((image * d.x[1] + channel) * d.x[2] + row) * d.x[3] + column;
          const auto from_w = ((k * d.w[1] + c) * d.w[2] + r) * d.w[3] + s;
          sum += static_cast<double>(p.x[static_cast<std::size_t>(from_x)]) *
                 static_cast<double>(p.w[static_cast<std::size_t>(from_w)]);
        }
      }
    }
    y.push_back(static_cast<double>(activated(d.activation, sum)));
  });
  return y;
}

}  // namespace sluice::test
