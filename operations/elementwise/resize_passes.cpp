// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/resize_passes.hpp"

#include "operations/elementwise/layouts.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace sluice::operations {
namespace {

constexpr std::int64_t largest_size = std::numeric_limits<std::int64_t>::max();

/// Elements with strides along the dimensions of y.
struct strided_elements {
  element_type type;
  extents strides;
};

/// The pass along axes of `call`, whose axis 0 is number `first`, to a tensor of `shape`.
resize_pass make_pass(const resize_call& call, const extents& shape, const strided_elements& y,
                      const strided_elements& x, int first, int count) {
  auto image = x.strides;
  std::array<extents, 2 + resize_pass::max_axes> strides{y.strides, image, shape, shape, shape};
  for (std::size_t k = 2; k < strides.size(); ++k) {
    std::fill_n(strides[k].data(), shape.size(), 0);
  }
  resize_pass pass;
  pass.axis_count = std::max(count, 1);
  pass.filter = call.filter;
  pass.extrapolation = call.extrapolation;
  for (int i = 0; i < count; ++i) {
    const auto d = call.dimensions[static_cast<std::size_t>(first) + static_cast<std::size_t>(i)];
    pass.axes[i] = call.axes[first + i];
    pass.axes[i].stride = x.strides[d];
    strides[1][d] = 0;
    strides[2 + static_cast<std::size_t>(i)][d] = 1;
  }
  pass.layout =
      make_layout<strides.size()>(shape, strides, {y.type, x.type, x.type, x.type, x.type});
  return pass;
}

extents row_major(const extents& shape) {
  auto strides = shape;
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

/// The axes, the one that shrinks x the most first.
std::array<int, resize_pass::max_axes> order_of_axes(const resize_call& call) {
  std::array<int, resize_pass::max_axes> order{0, 1, 2};
  const auto ratio = [&](int i) {
    return static_cast<double>(call.axes[i].result) / static_cast<double>(call.axes[i].extent);
  };
  std::stable_sort(order.begin(), order.begin() + call.axis_count,
                   [&](int a, int b) { return ratio(a) < ratio(b); });
  return order;
}

std::int64_t bytes_between_passes(const resize_call& call, const extents& shape) {
  auto bytes = static_cast<std::int64_t>(call.type == element_type::f64 ? 8 : 4);
  for (const auto extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return largest_size;
  }
  return bytes > largest_size - 255 ? largest_size : (bytes + 255) / 256 * 256;
}

/// Calls `visit(axis, shape)` for each pass of a separable call with the shape of its result.
template <class Visit>
void for_each_pass(const resize_call& call, const Visit& visit) {
  auto shape = call.shape;
  for (int i = 0; i < call.axis_count; ++i) {
    shape[call.dimensions[static_cast<std::size_t>(i)]] = call.axes[i].extent;
  }
  const auto order = order_of_axes(call);
  for (int i = 0; i < call.axis_count; ++i) {
    const auto axis = order[static_cast<std::size_t>(i)];
    shape[call.dimensions[static_cast<std::size_t>(axis)]] = call.axes[axis].result;
    visit(axis, static_cast<const extents&>(shape));
  }
}

}  // namespace

bool resize_call::is_separable() const noexcept {
  constexpr double few = 5;
  if (axis_count < 2 || filter.crops) return false;
  return std::any_of(axes, axes + axis_count,
                     [&](const auto& axis) { return most_taps(axis, filter) > few; });
}

launch_facts resize_call::facts() const noexcept {
  // About four products of an element and a weight are computed in the time of one element.
  launch_facts facts{.sizes = {count}, .work = static_cast<double>(count) / 4};
  for (int i = 0; i < axis_count; ++i) facts.work *= most_taps(axes[i], filter);
  // The weights along an axis are computed once. That is all that counts if X has one axis.
  constexpr double work_of_position = 16;
  constexpr double work_of_weight = 4;
  for (int i = 0; i < axis_count; ++i) {
    facts.work += static_cast<double>(axes[i].result) *
                  (work_of_position + work_of_weight * most_taps(axes[i], filter));
  }
  if (is_separable()) facts.commands = static_cast<std::size_t>(axis_count);
  return facts;
}

resize_pass whole_pass(const resize_call& call) {
  return make_pass(call, call.shape, {call.type, call.y_strides}, {call.type, call.x_strides}, 0,
                   call.axis_count);
}

std::array<separate_pass, resize_pass::max_axes> separate_passes(const resize_call& call) {
  std::array<separate_pass, resize_pass::max_axes> passes;
  const auto between = call.type == element_type::f64 ? element_type::f64 : element_type::f32;
  strided_elements x{call.type, call.x_strides};
  std::int64_t source = 0;
  std::int64_t end = 0;  // of scratch memory
  int number = 0;
  for_each_pass(call, [&](int axis, const extents& shape) {
    const bool is_last = number + 1 == call.axis_count;
    const auto y = is_last ? strided_elements{call.type, call.y_strides}
                           : strided_elements{between, row_major(shape)};
    passes[static_cast<std::size_t>(number)] = {make_pass(call, shape, y, x, axis, 1), source, end};
    source = end;
    end += is_last ? 0 : bytes_between_passes(call, shape);
    x = y;
    ++number;
  });
  return passes;
}

std::int64_t scratch_bytes(const resize_call& call) {
  if (!call.is_separable()) return 0;
  std::int64_t sum = 0;
  int number = 0;
  for_each_pass(call, [&](int, const extents& shape) {
    if (++number == call.axis_count) return;
    if (__builtin_add_overflow(sum, bytes_between_passes(call, shape), &sum)) sum = largest_size;
  });
  // Calls of similar sizes share a plan.
  constexpr std::int64_t largest_power = std::int64_t{1} << 62U;
  return sum > largest_power
             ? largest_size
             : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(sum)));
}

}  // namespace sluice::operations
