// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/resize.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice::test {

/// An element and its weight along one axis.
struct weighted_element {
  std::int64_t index;
  long double weight;
  long double error = 0.05L;  ///< of the weight, in roundings, because the position is rounded
};

/// One axis of a resized tensor: number `number` of the operation, from `extent` to `size`
/// elements.
struct reference_axis {
  std::size_t number;
  std::int64_t extent;
  std::int64_t size;
  long double scale;  ///< of y to x
};

/// Where a result lies, as the specification of ONNX has it.
inline long double reference_position(const resize& op, const reference_axis& axis,
                                      std::int64_t index) {
  const auto i = static_cast<long double>(index);
  const auto n = static_cast<long double>(axis.extent);
  const auto m = static_cast<long double>(axis.size);
  const bool exact = op.scales[0] == 0 && op.policy == resize_policy::stretch;
  const auto stretched = [&](long double place) {
    return exact ? place * n / m : place / axis.scale;
  };
  const long double half = stretched(i + 0.5L) - 0.5L;
  switch (op.coordinates) {
    case resize_coordinates::half_pixel:
      return half;
    case resize_coordinates::half_pixel_symmetric:
      return exact ? half : half + n / 2 * (1 - m / (axis.scale * n));
    case resize_coordinates::pytorch_half_pixel:
      return axis.size > 1 ? half : 0;
    case resize_coordinates::align_corners:
      return axis.size > 1 ? i * (n - 1) / (m - 1) : 0;
    case resize_coordinates::asymmetric:
      return stretched(i);
    case resize_coordinates::crop: {
      const long double begin = op.roi_begin[axis.number];
      const long double end = op.roi_end[axis.number];
      return axis.size > 1 ? begin * (n - 1) + i * ((end - begin) * (n - 1)) / (m - 1)
                           : 0.5L * (begin + end) * (n - 1);
    }
  }
  return 0;
}

/// The elements that make up a result along an axis; nothing if it is cropped.
inline std::optional<std::vector<weighted_element>> reference_weights(const resize& op,
                                                                      const reference_axis& axis,
                                                                      std::int64_t index) {
  const auto last = axis.extent - 1;
  if (op.mode == resize_mode::area) {
    const auto begin = index * axis.extent / axis.size;
    const auto end = ((index + 1) * axis.extent + axis.size - 1) / axis.size;
    std::vector<weighted_element> all;
    for (auto i = begin; i < end; ++i)
      all.push_back({i, 1.0L / static_cast<long double>(end - begin)});
    return all;
  }
  const auto position = reference_position(op, axis, index);
  if (op.coordinates == resize_coordinates::crop &&
      (position < 0 || position > static_cast<long double>(last))) {
    return std::nullopt;
  }
  if (op.mode == resize_mode::nearest) {
    const auto place = op.rounding == nearest_rounding::prefer_floor  ? std::ceil(position - 0.5L)
                       : op.rounding == nearest_rounding::prefer_ceil ? std::floor(position + 0.5L)
                       : op.rounding == nearest_rounding::floor       ? std::floor(position)
                                                                      : std::ceil(position);
    return {{{std::clamp<std::int64_t>(static_cast<std::int64_t>(place), 0, last), 1}}};
  }
  const long double stretch = op.antialias ? std::max(1 / axis.scale, 1.0L) : 1;
  const auto filter = [&](long double x) -> long double {
    x = std::abs(x) / stretch;
    if (op.mode == resize_mode::linear) return std::max(1 - x, 0.0L);
    const long double a = op.a;
    if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
    return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
  };
  std::vector<weighted_element> all;
  long double sum = 0;
  const auto reach = static_cast<std::int64_t>(std::ceil(2 * stretch)) + 1;
  const auto middle = static_cast<std::int64_t>(std::floor(position));
  for (auto i = middle - reach; i <= middle + reach; ++i) {
    const auto weight = filter(static_cast<long double>(i) - position);
    if (weight == 0 || (op.exclude_outside && (i < 0 || i > last))) continue;
    all.push_back({std::clamp<std::int64_t>(i, 0, last), weight});
    sum += weight;
  }
  for (auto& each : all) {
    each.weight /= sum;
    each.error /= std::abs(sum);
  }
  return all;
}

/// The extent of a result and its scale.
inline reference_axis axis_of(const resize& op, std::size_t place,
                              const std::vector<std::int64_t>& x) {
  const auto n = static_cast<long double>(x[place]);
  if (op.scales[0] != 0) {
    const long double crop =
        op.coordinates == resize_coordinates::crop ? op.roi_end[place] - op.roi_begin[place] : 1;
    return {place, x[place], static_cast<std::int64_t>(std::floor(n * crop * op.scales[place])),
            op.scales[place]};
  }
  if (op.policy == resize_policy::stretch) {
    return {place, x[place], op.sizes[place], static_cast<long double>(op.sizes[place]) / n};
  }
  std::vector<long double> scales;
  for (std::size_t i = 0; i < x.size(); ++i) {
    scales.push_back(static_cast<long double>(op.sizes[i]) / static_cast<long double>(x[i]));
  }
  const auto scale = op.policy == resize_policy::not_larger
                         ? *std::min_element(scales.begin(), scales.end())
                         : *std::max_element(scales.begin(), scales.end());
  return {place, x[place], static_cast<std::int64_t>(std::floor(n * scale + 0.5L)), scale};
}

}  // namespace sluice::test
