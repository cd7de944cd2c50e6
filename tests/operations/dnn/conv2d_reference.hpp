// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/dnn/convolution_reference.hpp"

#include <sluice/operations/dnn.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice::test {

/// A `conv2d` without its operands.
struct conv2d_description {
  extents x{};  ///< (N, C, H, W)
  extents w{};  ///< (K, C/groups, R, S)
  conv2d_geometry geometry{};
  bool has_bias = false;
  bool has_residual = false;
  sluice::activation activation = sluice::activation::none;
  math_mode math = math_mode::f32;
};

/// A convolution with its operands in host memory, row-major without gaps.
struct conv2d_problem {
  conv2d_description description{};
  std::vector<float> x{};
  std::vector<float> w{};
  std::vector<float> bias{};      ///< not read without a bias
  std::vector<float> residual{};  ///< not read without a residual
};

/// The same as a `convolution`.
inline convolution_description described(const conv2d_description& d) {
  const auto& g = d.geometry;
  const auto after = g.padding_after.value_or(g.padding);
  return {.x = d.x,
          .w = d.w,
          .strides = {g.stride.h, g.stride.w},
          .before = {g.padding.h, g.padding.w},
          .after = {after.h, after.w},
          .dilation = {g.dilation.h, g.dilation.w},
          .groups = g.groups,
          .has_bias = d.has_bias,
          .has_residual = d.has_residual,
          .activation = d.activation,
          .math = d.math};
}
/// The shape of the result.
inline extents output_shape(const conv2d_description& d) {
  return output_shape(described(d));
}
/// The number of products that are summed for one element of the result.
inline std::size_t terms(const conv2d_description& d) {
  return terms(described(d));
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
  if (draw(0, 2) == 0)
    g.padding_after = {.h = g.padding.h + draw(0, 2), .w = g.padding.w + draw(0, 2)};
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
  d.has_residual = draw(0, 2) == 0;
  return d;
}

/// A problem with random operands.
inline conv2d_problem random_conv2d(const conv2d_description& d, std::mt19937_64& generator) {
  conv2d_problem p{.description = d};
  p.x = random_values<float>(generator, element_count(d.x));
  p.w = random_values<float>(generator, element_count(d.w));
  p.bias = random_values<float>(generator, static_cast<std::size_t>(d.w[0]));
  p.residual = random_values<float>(generator, d.has_residual ? element_count(output_shape(d)) : 0);
  return p;
}

/// The result by its definition, row-major.
inline std::vector<double> conv2d_reference(const conv2d_problem& p) {
  return convolution_reference({described(p.description), p.x, p.w, p.bias, p.residual});
}

}  // namespace sluice::test
