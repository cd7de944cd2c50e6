// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/elementwise/activation_reference.hpp"
#include "tests/operations/strided.hpp"
#include "tests/support/random_values.hpp"

#include <sluice/operations/convolution.hpp>
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/operation_descriptor.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <random>
#include <vector>

namespace sluice::test {

/// Whether this build has a library for convolutions on devices of a kind.
[[nodiscard]] inline bool has_convolutions(device_kind kind) {
  return descriptor_of(operation_type<convolution>{}).makes_plans(kind);
}

/// A convolution without its operands, over any number of dimensions.
struct convolution_description {
  extents x{};  ///< (N, C, D1 … Dk)
  extents w{};  ///< (K, C/groups, R1 … Rk); (C, K/groups, R1 … Rk) of a transposed one
  extents strides{};
  extents before{};
  extents after{};
  extents dilation{};
  extents output_padding{};
  std::int64_t groups = 1;
  bool is_transposed = false;
  bool has_bias = false;
  bool has_residual = false;
  sluice::activation activation = sluice::activation::none;
  math_mode math = math_mode::f32;
};

inline void PrintTo(const convolution_description& d, std::ostream* stream) {
  *stream << (d.is_transposed ? "transposed " : "") << "x " << to_string(d.x) << " w "
          << to_string(d.w) << " strides " << to_string(d.strides) << " before "
          << to_string(d.before) << " after " << to_string(d.after) << " dilation "
          << to_string(d.dilation) << " output_padding " << to_string(d.output_padding)
          << " groups " << d.groups << (d.has_bias ? " bias" : "")
          << (d.has_residual ? " residual" : "") << " activation " << static_cast<int>(d.activation)
          << (d.math == math_mode::tf32 ? " tf32" : "");
}

/// A convolution with its operands in host memory, row-major without gaps.
struct convolution_problem {
  convolution_description description{};
  std::vector<float> x{};
  std::vector<float> w{};
  std::vector<float> bias{};      ///< not read without a bias
  std::vector<float> residual{};  ///< not read without a residual
};

/// The number of elements of a shape.
inline std::size_t element_count(const extents& shape) {
  std::size_t count = 1;
  for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

/// The number of a list that belongs to dimension `i`.
inline std::int64_t number_of(const extents& list, std::size_t i, std::int64_t otherwise) {
  return list.empty() ? otherwise : list[i];
}

/// The shape of the result.
inline extents output_shape(const convolution_description& d) {
  extents y{d.x[0], d.is_transposed ? d.w[1] * d.groups : d.w[0]};
  for (std::size_t i = 0; i + 2 < d.x.size(); ++i) {
    const auto padding = number_of(d.before, i, 0) + number_of(d.after, i, 0);
    const auto stride = number_of(d.strides, i, 1);
    const auto reach = number_of(d.dilation, i, 1) * (d.w[i + 2] - 1);
    y.push_back(d.is_transposed ? stride * (d.x[i + 2] - 1) + reach + 1 - padding +
                                      number_of(d.output_padding, i, 0)
                                : (d.x[i + 2] + padding - reach - 1) / stride + 1);
  }
  return y;
}

/// The most products that are summed for one element of the result.
inline std::size_t terms(const convolution_description& d) {
  const auto channels = d.is_transposed ? d.w[0] / d.groups : d.w[1];
  return element_count(d.w) / std::max<std::size_t>(static_cast<std::size_t>(d.w[0]), 1) /
         std::max<std::size_t>(static_cast<std::size_t>(d.w[1]), 1) *
         static_cast<std::size_t>(channels);
}

/// The result by its definition, row-major: what each element of X adds to Y. Missing dimensions
/// have the extent 1.
inline std::vector<double> convolution_reference(const convolution_problem& p) {
  using numbers = std::array<std::int64_t, 3>;
  const auto& d = p.description;
  const auto rank = d.x.size() - 2;
  const auto spatial = [&](const extents& list, std::size_t skipped, std::int64_t otherwise) {
    numbers values{otherwise, otherwise, otherwise};
    for (std::size_t i = 0; i < rank; ++i) {
      values[3 - rank + i] = number_of(list, i + skipped, otherwise);
    }
    return values;
  };
  const auto shape = output_shape(d);
  const auto x = spatial(d.x, 2, 1), w = spatial(d.w, 2, 1), y = spatial(shape, 2, 1);
  const auto stride = spatial(d.strides, 0, 1), dilation = spatial(d.dilation, 0, 1);
  const auto before = spatial(d.before, 0, 0);
  // A transposed convolution walks over X, and places filters in Y.
  const auto& narrow = d.is_transposed ? x : y;
  const auto& wide = d.is_transposed ? y : x;
  const auto size = [](const numbers& n) {
    return n[0] * n[1] * n[2];
  };
  const auto narrow_channels = d.is_transposed ? d.x[1] : shape[1];
  const auto wide_channels = d.is_transposed ? shape[1] : d.x[1];
  std::vector<double> sums(element_count(shape));
  const auto channels = d.w[1], filters = d.w[0] / d.groups;
  for (std::int64_t n = 0; n < d.x[0]; ++n) {
    for (std::int64_t k = 0; k < d.w[0]; ++k) {
      const auto narrow_plane = (n * narrow_channels + k) * size(narrow);
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto wide_plane = (n * wide_channels + k / filters * channels + c) * size(wide);
        const auto filter = (k * channels + c) * size(w);
        const auto add = [&](const numbers& i, const numbers& t) {
          std::int64_t position = 0;
          for (std::size_t a = 0; a < 3; ++a) {
            const auto coordinate = i[a] * stride[a] - before[a] + t[a] * dilation[a];
            if (coordinate < 0 || coordinate >= wide[a]) return;
            position = position * wide[a] + coordinate;
          }
          const auto narrow_index =
              static_cast<std::size_t>(narrow_plane + (i[0] * narrow[1] + i[1]) * narrow[2] + i[2]);
          const auto wide_index = static_cast<std::size_t>(wide_plane + position);
          const auto factor = static_cast<double>(
              p.w[static_cast<std::size_t>(filter + (t[0] * w[1] + t[1]) * w[2] + t[2])]);
          d.is_transposed ? sums[wide_index] += factor * static_cast<double>(p.x[narrow_index])
                          : sums[narrow_index] += factor * static_cast<double>(p.x[wide_index]);
        };
        numbers i{}, t{};
        for (i[0] = 0; i[0] < narrow[0]; ++i[0])
          for (i[1] = 0; i[1] < narrow[1]; ++i[1])
            for (i[2] = 0; i[2] < narrow[2]; ++i[2])
              for (t[0] = 0; t[0] < w[0]; ++t[0])
                for (t[1] = 0; t[1] < w[1]; ++t[1])
                  for (t[2] = 0; t[2] < w[2]; ++t[2]) add(i, t);
      }
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto channel = i / static_cast<std::size_t>(size(y)) % static_cast<std::size_t>(shape[1]);
    if (d.has_bias) sums[i] += static_cast<double>(p.bias[channel]);
    if (d.has_residual) sums[i] += static_cast<double>(p.residual[i]);
    sums[i] = static_cast<double>(activated(d.activation, sums[i]));
  }
  return sums;
}

/// A random convolution over `rank` dimensions.
inline convolution_description random_convolution(std::mt19937_64& generator, std::size_t rank,
                                                  bool is_transposed) {
  const auto draw = [&](std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(generator);
  };
  convolution_description d{.groups = draw(0, 1) == 0 ? 1 : draw(2, 4),
                            .is_transposed = is_transposed};
  const std::int64_t most = rank == 3 ? 3 : 5;
  const auto outputs = draw(1, most), inputs = draw(1, most);
  d.x = {draw(1, 3), d.groups * inputs};
  d.w = is_transposed ? extents{d.groups * inputs, outputs} : extents{d.groups * outputs, inputs};
  for (std::size_t i = 0; i < rank; ++i) {
    const auto taps = draw(1, most), stride = draw(1, 3), dilation = draw(1, 3);
    const auto reach = dilation * (taps - 1);
    auto before = draw(0, reach + 1), after = draw(0, 3) == 0 ? before : draw(0, reach + 1);
    const auto extra = is_transposed ? draw(0, std::max(stride, dilation) - 1) : 0;
    auto extent = draw(1, rank == 3 ? 6 : 20);
    if (is_transposed) {
      // At least one element of the result is left.
      extent = std::max(extent, (before + after) / stride + 2);
    } else {
      extent = std::max(extent, reach + 1 - before - after);
    }
    d.w.push_back(taps);
    d.x.push_back(extent);
    d.strides.push_back(stride);
    d.before.push_back(before);
    d.after.push_back(after);
    d.dilation.push_back(dilation);
    if (is_transposed) d.output_padding.push_back(extra);
  }
  d.has_bias = draw(0, 1) == 1;
  d.has_residual = draw(0, 1) == 1;
  d.activation = all_activations[static_cast<std::size_t>(
      draw(0, static_cast<std::int64_t>(all_activations.size()) - 1))];
  return d;
}

}  // namespace sluice::test
