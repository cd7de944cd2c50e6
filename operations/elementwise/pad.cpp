// SPDX-License-Identifier: Apache-2.0
#include "operations/core/counted.hpp"
#include "operations/core/element_value.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/pad_call.hpp"

#include <sluice/operations/movement.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace sluice {
namespace {

using operations::pad_call;
using operations::pad_dimension;

constexpr auto largest_extent = std::numeric_limits<std::int64_t>::max();

/// Copies an element into all of 16 bytes.
void repeat_value(const operations::element_bytes& element, std::size_t size, pad_call& call) {
  for (std::size_t i = 0; i < sizeof call.value; i += size) {
    std::memcpy(&call.value[i], element.data(), size);
  }
}

/// Whether `inner` and the dimension `outer` around it are one dimension.
bool merge(const pad_dimension& outer, const pad_dimension& inner, pad_mode mode) {
  const bool moves_blocks = mode == pad_mode::constant || mode == pad_mode::wrap;
  return inner.is_plain() && (moves_blocks || outer.is_plain()) &&
         outer.stride == inner.stride * inner.extent &&
         outer.x_stride == inner.x_stride * inner.x_extent;
}

/// The layout of dimensions: ordered by falling strides of Y, and merged where that is possible.
void set_layout(const tensor_spec& y, const std::array<pad_dimension, extents::max_rank>& all,
                pad_mode mode, pad_call& call) {
  auto& layout = call.layout;
  layout.mode = mode;
  layout.types[0] = operations::storage_of(y.type);
  layout.count = static_cast<std::int64_t>(y.size());
  if (layout.count == 0) return;
  std::array<pad_dimension, extents::max_rank> ordered{};
  std::size_t rank = 0;
  for (std::size_t d = 0; d < y.rank(); ++d) {
    if (all[d].extent == 1 && all[d].is_plain()) continue;
    ordered[rank++] = all[d];
    for (auto i = rank - 1; i > 0 && ordered[i - 1].stride < ordered[i].stride; --i) {
      std::swap(ordered[i - 1], ordered[i]);
    }
  }
  layout.rank = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto& dimension = ordered[i];
    if (layout.rank > 0 && merge(layout.dimensions[layout.rank - 1], dimension, mode)) {
      auto& outer = layout.dimensions[layout.rank - 1];
      outer = {outer.extent * dimension.extent, dimension.stride, outer.x_extent * dimension.extent,
               dimension.x_stride, outer.before * dimension.extent};
    } else {
      layout.dimensions[layout.rank++] = dimension;
    }
  }
  layout.rank = std::max(layout.rank, 1);
}

/// The numbers of a parameter with one for each dimension of X, if `numbers` are not given `zeros`.
void require_numbers(std::string_view name, const extents& numbers, const tensor_spec& x) {
  if (numbers.size() == x.rank()) return;
  throw invalid_argument(name, "has " + operations::counted(numbers.size(), "number") +
                                   ", but x has " + operations::counted(x.rank(), "dimension"));
}

[[noreturn]] void refuse_number(std::string_view name, std::int64_t number, std::int64_t extent) {
  throw invalid_argument(
      name, std::to_string(number) + " does not fit the extent " + std::to_string(extent));
}

pad_call infer_pad(const pad& op, inference& inference) {
  const auto& x = inference.require(op.x);
  operations::require_enumerator("mode", op.mode, pad_mode::wrap);
  if (op.mode != pad_mode::constant && !op.value.is_zero()) {
    throw invalid_argument("value",
                           "is " + op.value.text() + ", but only the mode constant has it");
  }
  if (!op.before.empty()) require_numbers("before", op.before, x);
  if (!op.after.empty()) require_numbers("after", op.after, x);
  pad_call call;
  auto shape = x.shape;
  std::array<pad_dimension, extents::max_rank> dimensions{};
  for (std::size_t d = 0; d < x.rank(); ++d) {
    auto& dimension = dimensions[d];
    dimension = {.x_extent = x.shape[d], .x_stride = x.strides[d]};
    for (const auto& [name, numbers] :
         {std::pair{"before", &op.before}, std::pair{"after", &op.after}}) {
      const auto number = numbers->empty() ? 0 : (*numbers)[d];
      if (number != 0) inference.couple(op.x, d);
      if (number < -dimension.x_extent) refuse_number(name, number, dimension.x_extent);
      dimension.x_extent += std::min<std::int64_t>(number, 0);
    }
    shape[d] = dimension.x_extent;
    for (const auto& [name, numbers] :
         {std::pair{"before", &op.before}, std::pair{"after", &op.after}}) {
      const auto number = numbers->empty() ? 0 : std::max<std::int64_t>((*numbers)[d], 0);
      if (number > largest_extent - shape[d]) refuse_number(name, number, shape[d]);
      shape[d] += number;
    }
    if (!op.before.empty()) dimension.before = std::max<std::int64_t>(op.before[d], 0);
    if (op.mode == pad_mode::wrap && dimension.x_extent > 0) {
      dimension.before %= dimension.x_extent;
    }
  }
  const auto& y = inference.result(op.y, x.type, shape);
  for (std::size_t d = 0; d < x.rank(); ++d) {
    dimensions[d].extent = y.shape[d];
    dimensions[d].stride = y.strides[d];
    if (y.size() != 0 && dimensions[d].x_extent == 0 && op.mode != pad_mode::constant) {
      throw inference.refusal(op.x, "has the shape ", x.shape,
                              ", so that there is no element to repeat");
    }
    if (y.size() != 0 && !op.before.empty() && op.before[d] < 0) {
      call.layout.first -= op.before[d] * x.strides[d];
    }
  }
  if (op.mode == pad_mode::constant) {
    repeat_value(operations::element_value(op.value, x.type, "value"), size_of(x.type), call);
  }
  set_layout(y, dimensions, op.mode, call);
  return call;
}

/// The call of a Y that repeats X, shifted by numbers within its extents.
template <class Operation>
pad_call call_of_repeated(const Operation& op, inference& inference, const tensor_spec& x,
                          const extents& shape, const extents& shifts) {
  const auto& y = inference.result(op.y, x.type, shape);
  std::array<pad_dimension, extents::max_rank> dimensions{};
  for (std::size_t d = 0; d < x.rank(); ++d) {
    dimensions[d] = {shape[d], y.strides[d], x.shape[d], x.strides[d], shifts[d]};
  }
  pad_call call;
  set_layout(y, dimensions, pad_mode::wrap, call);
  return call;
}

pad_call infer_tile(const tile& op, inference& inference) {
  const auto& x = inference.require(op.x);
  require_numbers("repeats", op.repeats, x);
  auto shape = x.shape;
  auto shifts = x.shape;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    const auto repeats = op.repeats[d];
    if (repeats < 0 || (x.shape[d] != 0 && repeats > largest_extent / x.shape[d])) {
      refuse_number("repeats", repeats, x.shape[d]);
    }
    if (repeats != 1) inference.couple(op.x, d);
    shape[d] *= repeats;
    shifts[d] = 0;
  }
  return call_of_repeated(op, inference, x, shape, shifts);
}

pad_call infer_roll(const roll& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (op.shifts.size() != op.axes.size()) {
    throw invalid_argument("shifts", "has " + operations::counted(op.shifts.size(), "number") +
                                         ", but axes has " + std::to_string(op.axes.size()));
  }
  auto shifts = x.shape;
  std::fill_n(shifts.data(), shifts.size(), 0);
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    const auto d = operations::dimension_of("axes", op.axes[i], x.rank());
    inference.couple(op.x, d);
    const auto extent = x.shape[d];
    if (extent == 0) continue;
    const auto shift = op.shifts[i] % extent;
    // The sum of two numbers below the extent might overflow.
    shifts[d] -= extent - (shift < 0 ? shift + extent : shift);
    if (shifts[d] < 0) shifts[d] += extent;
  }
  return call_of_repeated(op, inference, x, x.shape, shifts);
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<pad>) {
  return operations::descriptor_of_map<pad, pad_call, infer_pad, &pad::x>("pad");
}
const operation_descriptor& descriptor_of(operation_type<tile>) {
  return operations::descriptor_of_map<tile, pad_call, infer_tile, &tile::x>("tile");
}
const operation_descriptor& descriptor_of(operation_type<roll>) {
  return operations::descriptor_of_map<roll, pad_call, infer_roll, &roll::x>("roll");
}

}  // namespace sluice
