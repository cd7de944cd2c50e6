// SPDX-License-Identifier: Apache-2.0
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <string>

namespace sluice {
namespace {

void require_at_least(std::int64_t smallest, const char* name, std::int64_t value) {
  if (value >= smallest) return;
  throw invalid_argument(
      name, "is " + std::to_string(value) + ", but must be at least " + std::to_string(smallest));
}

void require_shape(const char* name, const extents& shape, const char* meaning) {
  bool valid = shape.size() == 4;
  for (const auto extent : shape) valid = valid && extent >= 0;
  if (!valid) {
    throw invalid_argument(name, "has the shape " + to_string(shape) + ", but must be " + meaning);
  }
}

/// One extent of the result. `dimension` is "height" or "width".
std::int64_t output_extent(const std::string& dimension, const char* suffix, std::int64_t input,
                           std::int64_t taps, std::int64_t padding, std::int64_t dilation,
                           std::int64_t stride) {
  std::int64_t padded = 0;
  std::int64_t reach = 0;  // from the first tap to the last one
  if (__builtin_mul_overflow(padding, std::int64_t{2}, &padded) ||
      __builtin_add_overflow(padded, input, &padded)) {
    throw invalid_argument(
        std::string("geometry.padding.") + suffix,
        "is " + std::to_string(padding) + ", which overflows the " + dimension + " of x");
  }
  if (__builtin_mul_overflow(dilation, taps - 1, &reach)) {
    throw invalid_argument(std::string("geometry.dilation.") + suffix,
                           "is " + std::to_string(dilation) + ", which overflows the " + dimension +
                               " of the filters");
  }
  if (reach >= padded) {
    throw invalid_argument("w", "the " + dimension + " of the filters, dilated, is " +
                                    std::to_string(reach) + " + 1, but the padded x has only " +
                                    std::to_string(padded));
  }
  return (padded - reach - 1) / stride + 1;
}

}  // namespace

extents conv2d_output_shape(const extents& x, const extents& w, const conv2d_geometry& geometry) {
  require_shape("x", x, "a batch of images (N, C, H, W)");
  require_shape("w", w, "a set of filters (K, C/groups, R, S)");
  if (w[2] == 0 || w[3] == 0) {
    throw invalid_argument("w", "has the shape " + to_string(w) + ", so the filters are empty");
  }
  const auto& g = geometry;
  require_at_least(0, "geometry.padding.h", g.padding.h);
  require_at_least(0, "geometry.padding.w", g.padding.w);
  require_at_least(1, "geometry.stride.h", g.stride.h);
  require_at_least(1, "geometry.stride.w", g.stride.w);
  require_at_least(1, "geometry.dilation.h", g.dilation.h);
  require_at_least(1, "geometry.dilation.w", g.dilation.w);
  require_at_least(1, "geometry.groups", g.groups);
  if (x[1] % g.groups != 0 || w[0] % g.groups != 0) {
    throw invalid_argument("geometry.groups", "is " + std::to_string(g.groups) +
                                                  ", which does not divide the " +
                                                  std::to_string(x[1]) + " channels of x and the " +
                                                  std::to_string(w[0]) + " filters");
  }
  if (w[1] != x[1] / g.groups) {
    throw invalid_argument("w", "has filters of " + std::to_string(w[1]) + " channels, but x has " +
                                    std::to_string(x[1]) + " channels in " +
                                    std::to_string(g.groups) + " group(s)");
  }
  const extents y{x[0], w[0],
                  output_extent("height", "h", x[2], w[2], g.padding.h, g.dilation.h, g.stride.h),
                  output_extent("width", "w", x[3], w[3], g.padding.w, g.dilation.w, g.stride.w)};
  try {
    (void)tensor_spec::row_major(element_type::f32, y);
  } catch (const error&) {
    throw invalid_argument("y", "the size of " + to_string(y) + " overflows");
  }
  return y;
}

}  // namespace sluice
