// SPDX-License-Identifier: Apache-2.0
#include "operations/core/counted.hpp"
#include "operations/dnn/convolution_inference.hpp"

#include <sluice/operations/tensor_spec.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace sluice::operations {
namespace {

constexpr std::array axis_names{"depth", "height", "width"};
constexpr std::array axis_adjectives{" deep", " high", " wide"};

void require_at_least(std::int64_t smallest, const convolution_geometry& geometry,
                      geometry_member member, std::size_t axis, std::int64_t value) {
  if (value >= smallest) return;
  throw invalid_argument(
      geometry.name(member, axis),
      "is " + std::to_string(value) + ", but must be at least " + std::to_string(smallest));
}

void require_shape(const char* name, const extents& shape, std::size_t rank,
                   const std::string& meaning) {
  bool valid = shape.size() == rank + 2;
  for (const auto extent : shape) valid = valid && extent >= 0;
  if (valid) return;
  constexpr std::array dimensions{"W)", "H, W)", "D, H, W)"};
  constexpr std::array taps{"S)", "R, S)", "Q, R, S)"};
  throw invalid_argument(name, "has the shape " + to_string(shape) + ", but must be " + meaning +
                                   (*name == 'x' ? dimensions : taps)[rank - 1]);
}

/// One dimension of a convolution.
struct axis_geometry {
  const convolution_geometry& geometry;
  std::size_t axis;
  std::int64_t input;
  std::int64_t taps;

  [[nodiscard]] std::string dimension() const { return axis_names[axis]; }
  [[nodiscard]] std::string name(geometry_member member) const {
    return geometry.name(member, axis);
  }
  /// From the first tap to the last one.
  [[nodiscard]] std::int64_t reach() const {
    std::int64_t reach = 0;
    const auto dilation = geometry.dilation[axis];
    if (__builtin_mul_overflow(dilation, taps - 1, &reach)) {
      throw invalid_argument(name(geometry_member::dilation), "is " + std::to_string(dilation) +
                                                                  ", which overflows the " +
                                                                  dimension() + " of the filters");
    }
    return reach;
  }
};

/// One extent of the result of a convolution.
std::int64_t forward_extent(const axis_geometry& a) {
  const auto before = a.geometry.before[a.axis];
  const auto after = a.geometry.after[a.axis];
  std::int64_t padded = 0;
  if (__builtin_add_overflow(before, after, &padded) ||
      __builtin_add_overflow(padded, a.input, &padded)) {
    const auto larger = before >= after ? geometry_member::before : geometry_member::after;
    throw invalid_argument(a.name(larger), "is " + std::to_string(std::max(before, after)) +
                                               ", which overflows the " + a.dimension() + " of x");
  }
  const auto reach = a.reach();
  if (reach >= padded) {
    const bool is_dilated = a.geometry.dilation[a.axis] != 1;
    const std::string adjective = axis_adjectives[a.axis];
    throw invalid_argument("w", (is_dilated ? "the dilated filters are " : "the filters are ") +
                                    std::to_string(static_cast<std::uint64_t>(reach) + 1) +
                                    adjective + ", but the padded x is " + std::to_string(padded) +
                                    adjective);
  }
  return (padded - reach - 1) / a.geometry.stride[a.axis] + 1;
}

/// One extent of the result of a transposed convolution.
std::int64_t transposed_extent(const axis_geometry& a) {
  const auto& g = a.geometry;
  const auto extra = g.output_padding[a.axis];
  if (extra >= std::max(g.stride[a.axis], g.dilation[a.axis])) {
    throw invalid_argument(
        a.name(geometry_member::output_padding),
        "is " + std::to_string(extra) + ", but must be less than the stride or than the dilation");
  }
  if (a.input == 0) {
    throw invalid_argument("x", "has no elements along its " + a.dimension());
  }
  std::int64_t extent = 0;
  if (__builtin_mul_overflow(g.stride[a.axis], a.input - 1, &extent) ||
      __builtin_add_overflow(extent, extra, &extent)) {
    throw invalid_argument(a.name(geometry_member::stride),
                           "is " + std::to_string(g.stride[a.axis]) + ", which overflows the " +
                               a.dimension() + " of y");
  }
  if (__builtin_add_overflow(extent, a.reach(), &extent) ||
      __builtin_add_overflow(extent, 1, &extent)) {
    throw invalid_argument(a.name(geometry_member::dilation),
                           "is " + std::to_string(g.dilation[a.axis]) + ", which overflows the " +
                               a.dimension() + " of y");
  }
  // Neither subtraction overflows: all numbers are at least 0.
  const auto kept = extent - g.before[a.axis];
  if (kept <= g.after[a.axis]) {
    const auto larger =
        g.before[a.axis] >= g.after[a.axis] ? geometry_member::before : geometry_member::after;
    throw invalid_argument(a.name(larger), "leaves nothing of the " + std::to_string(extent) +
                                               " elements along the " + a.dimension() + " of y");
  }
  return kept - g.after[a.axis];
}

void check_numbers(const convolution_geometry& g) {
  const auto require = [&](std::int64_t smallest, geometry_member member, const spatial& values) {
    for (auto axis = g.first_axis(); axis < values.size(); ++axis) {
      require_at_least(smallest, g, member, axis, values[axis]);
    }
  };
  require(0, geometry_member::before, g.before);
  require(0, geometry_member::after, g.after);
  require(1, geometry_member::stride, g.stride);
  require(1, geometry_member::dilation, g.dilation);
  require(0, geometry_member::output_padding, g.output_padding);
  require_at_least(1, g, geometry_member::groups, 0, g.groups);
}

/// How to pass images whose channels are the last dimension; empty if that does not fit either.
std::string hint_for_channels_last(const extents& x, std::int64_t channels, std::int64_t groups) {
  const auto last = x[x.size() - 1];
  if (last % groups != 0 || last / groups != channels) return {};
  std::string order = "0, " + std::to_string(x.size() - 1);
  for (std::size_t d = 1; d + 1 < x.size(); ++d) order += ", " + std::to_string(d);
  return "; channels-last images are passed as x.permute({" + order + "})";
}

/// The channels of the result.
std::int64_t result_channels(const extents& x, const extents& w, const convolution_geometry& g) {
  if (x[1] % g.groups != 0 || w[0] % g.groups != 0) {
    throw invalid_argument(g.name(geometry_member::groups, 0),
                           "is " + std::to_string(g.groups) + ", which does not divide the " +
                               std::to_string(x[1]) + " channels of x and the " +
                               std::to_string(w[0]) + " filters");
  }
  if (!g.is_transposed) {
    if (w[1] == x[1] / g.groups) return w[0];
    throw invalid_argument(
        "w", "has filters of " + counted(w[1], "channel") + ", but x has " +
                 counted(x[1], "channel") +
                 (g.groups == 1 ? "" : " in " + std::to_string(g.groups) + " groups") +
                 hint_for_channels_last(x, w[1], g.groups));
  }
  if (w[0] != x[1]) {
    throw invalid_argument("w", "has " + std::to_string(w[0]) + " filters, but x has " +
                                    std::to_string(x[1]) + " channels");
  }
  std::int64_t channels = 0;
  if (__builtin_mul_overflow(w[1], g.groups, &channels)) {
    throw invalid_argument(
        g.name(geometry_member::groups, 0),
        "is " + std::to_string(g.groups) + ", which overflows the channels of y");
  }
  return channels;
}

}  // namespace

extents convolution_result(const extents& x, const extents& w, const convolution_geometry& g) {
  require_shape("x", x, g.rank, "a batch of images (N, C, ");
  require_shape(
      "w", w, g.rank,
      g.is_transposed ? "a set of filters (C, K/groups, " : "a set of filters (K, C/groups, ");
  for (std::size_t i = 2; i < w.size(); ++i) {
    if (w[i] != 0) continue;
    throw invalid_argument("w", "has the shape " + to_string(w) + ", so the filters are empty");
  }
  check_numbers(g);
  extents y{x[0], result_channels(x, w, g)};
  for (std::size_t i = 0; i < g.rank; ++i) {
    const axis_geometry axis{g, g.first_axis() + i, x[i + 2], w[i + 2]};
    y.push_back(g.is_transposed ? transposed_extent(axis) : forward_extent(axis));
  }
  try {
    (void)tensor_spec::row_major(element_type::f32, y);
  } catch (const error&) {
    throw invalid_argument("y", "the size of " + to_string(y) + " overflows");
  }
  return y;
}

}  // namespace sluice::operations
