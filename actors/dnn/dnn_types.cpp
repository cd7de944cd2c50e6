// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/dnn_types.hpp>
#include <sluice/runtime/error.hpp>

#include <initializer_list>
#include <limits>
#include <string>

namespace sluice {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw error(errc::invalid_argument, "conv2d: " + what);
}

void require_at_least(std::int64_t smallest, const char* name, std::int64_t value) {
  if (value < smallest) {
    refuse(std::string(name) + " is " + std::to_string(value) + ", but must be at least " +
           std::to_string(smallest));
  }
}

/// The product of dimensions, none of which is negative.
std::size_t product(const char* name, std::initializer_list<std::int64_t> dimensions) {
  // In bytes of the widest element it still is a size.
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 16;
  std::int64_t elements = 1;
  for (const std::int64_t dimension : dimensions) {
    require_at_least(0, name, dimension);
    if (dimension == 0) return 0;
  }
  for (const std::int64_t dimension : dimensions) {
    if (__builtin_mul_overflow(elements, dimension, &elements) || elements > most) {
      refuse(std::string("the size of ") + name + " overflows");
    }
  }
  return static_cast<std::size_t>(elements);
}

/// One dimension of the result. `what` is "height" or "width".
std::int64_t output_extent(const char* what, std::int64_t input, std::int64_t filter,
                           std::int64_t padding, std::int64_t dilation, std::int64_t stride) {
  std::int64_t padded = 0;
  std::int64_t reach = 0;  // from the first tap to the last one
  if (__builtin_mul_overflow(padding, std::int64_t{2}, &padded) ||
      __builtin_add_overflow(padded, input, &padded)) {
    refuse(std::string("padding overflows the ") + what + " of the input");
  }
  if (__builtin_mul_overflow(dilation, filter - 1, &reach)) {
    refuse(std::string("dilation overflows the ") + what + " of the filter");
  }
  if (reach >= padded) {
    refuse(std::string("filter: its ") + what + ", dilated, is " + std::to_string(reach) +
           " + 1, but the padded input has only " + std::to_string(padded));
  }
  return (padded - reach - 1) / stride + 1;
}

}  // namespace

std::size_t nchw_shape::elements() const {
  return product("tensor", {n, c, h, w});
}

std::size_t filter_shape::elements() const {
  return product("filter", {k, c, r, s});
}

nchw_shape conv2d_output_shape(const nchw_shape& input, const filter_shape& filter,
                               const conv2d_geometry& geometry) {
  require_at_least(0, "input.n", input.n);
  require_at_least(0, "input.c", input.c);
  require_at_least(0, "input.h", input.h);
  require_at_least(0, "input.w", input.w);
  require_at_least(0, "filter.k", filter.k);
  require_at_least(0, "filter.c", filter.c);
  require_at_least(1, "filter.r", filter.r);
  require_at_least(1, "filter.s", filter.s);
  require_at_least(0, "padding.h", geometry.padding.h);
  require_at_least(0, "padding.w", geometry.padding.w);
  require_at_least(1, "stride.h", geometry.stride.h);
  require_at_least(1, "stride.w", geometry.stride.w);
  require_at_least(1, "dilation.h", geometry.dilation.h);
  require_at_least(1, "dilation.w", geometry.dilation.w);
  require_at_least(1, "groups", geometry.groups);

  const std::int64_t groups = geometry.groups;
  if (input.c % groups != 0 || filter.k % groups != 0) {
    refuse("groups is " + std::to_string(groups) + ", which does not divide the " +
           std::to_string(input.c) + " channels of the input and the " + std::to_string(filter.k) +
           " filters");
  }
  if (filter.c != input.c / groups) {
    refuse("filter.c is " + std::to_string(filter.c) + ", but the input has " +
           std::to_string(input.c) + " channels in " + std::to_string(groups) + " group(s)");
  }

  const nchw_shape output{.n = input.n,
                          .c = filter.k,
                          .h = output_extent("height", input.h, filter.r, geometry.padding.h,
                                             geometry.dilation.h, geometry.stride.h),
                          .w = output_extent("width", input.w, filter.s, geometry.padding.w,
                                             geometry.dilation.w, geometry.stride.w)};
  product("input", {input.n, input.c, input.h, input.w});
  (void)filter.elements();
  product("output", {output.n, output.c, output.h, output.w});
  return output;
}

}  // namespace sluice
