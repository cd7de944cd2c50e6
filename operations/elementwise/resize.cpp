// SPDX-License-Identifier: Apache-2.0
#include "operations/core/counted.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/cuda_build.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/resize_passes.hpp"
#include "operations/elementwise/workspace_plan.hpp"

#include <sluice/operations/resize.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

namespace sluice {
namespace {

using operations::resize_axis;
using operations::resize_call;

/// An axis, its dimension and its size as it is stated, 0 if it is not.
struct stated_axis {
  std::size_t dimension = 0;
  std::int64_t size = 0;
  double scale = 0;  ///< of y to x, if it is given or one serves all axes
};
struct stated_axes {
  std::array<stated_axis, resize::max_axes> all{};
  std::size_t count = 0;
};

void require_parameters(const resize& op) {
  operations::require_enumerator("mode", op.mode, resize_mode::area);
  operations::require_enumerator("coordinates", op.coordinates, resize_coordinates::crop);
  operations::require_enumerator("rounding", op.rounding, nearest_rounding::ceil);
  operations::require_enumerator("policy", op.policy, resize_policy::not_smaller);
  const bool is_sum = op.mode == resize_mode::linear || op.mode == resize_mode::cubic;
  if (op.antialias && !is_sum) {
    throw invalid_argument("antialias", "is true, but only linear and cubic modes have it");
  }
  if (op.exclude_outside && !is_sum) {
    throw invalid_argument("exclude_outside", "is true, but only linear and cubic modes have it");
  }
  if (op.mode == resize_mode::area && op.coordinates != resize_coordinates::half_pixel) {
    throw invalid_argument("coordinates", "are stated, but the mode area has none");
  }
  if (!std::isfinite(op.a)) throw invalid_argument("a", "is not a finite number");
  for (std::size_t i = 0; i < resize::max_axes; ++i) {
    if (!std::isfinite(op.roi_begin[i])) throw invalid_argument("roi_begin", "is not finite");
    if (!std::isfinite(op.roi_end[i])) throw invalid_argument("roi_end", "is not finite");
  }
}

/// The number of scales that are given.
std::size_t count_of_scales(const resize& op) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < op.scales.size(); ++i) {
    if (op.scales[i] == 0) continue;
    if (!(op.scales[i] > 0) || !std::isfinite(op.scales[i]) || count != i) {
      throw invalid_argument("scales", "must be finite numbers above 0, one for each axis");
    }
    ++count;
  }
  if (count != 0 && !op.sizes.empty()) throw invalid_argument("scales", "are given beside sizes");
  if (count != 0 && op.policy != resize_policy::stretch) {
    throw invalid_argument("policy", "is given, but needs sizes");
  }
  return count;
}

/// The dimensions that are resized, with what is stated about them.
stated_axes require_axes(const resize& op, const inference& inference, const tensor_spec& x) {
  const auto scales = count_of_scales(op);
  const char* const name = scales != 0 ? "scales" : op.sizes.empty() ? "axes" : "sizes";
  stated_axes axes{.count = scales != 0        ? scales
                            : op.sizes.empty() ? op.axes.size()
                                               : op.sizes.size()};
  if (axes.count == 0) throw invalid_argument("sizes, scales", "one of them must be given");
  if (axes.count > resize::max_axes) {
    throw invalid_argument(
        name, "has " + std::to_string(axes.count) + " numbers, but 3 axes are resized at most");
  }
  if (!op.axes.empty() && op.axes.size() != axes.count) {
    throw invalid_argument("axes", "is " + to_string(op.axes) + ", but " + name + " has " +
                                       operations::counted(axes.count, "number"));
  }
  if (axes.count > x.rank()) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", which has too few dimensions");
  }
  const auto* const y = inference.given(op.y);
  if (name == std::string_view("axes") && (y == nullptr || y->rank() != x.rank())) {
    throw invalid_argument("sizes, scales", "one of them must be given, or a y of the rank of x");
  }
  for (std::size_t i = 0; i < axes.count; ++i) {
    auto& axis = axes.all[i];
    axis.dimension = op.axes.empty() ? x.rank() - axes.count + i
                                     : operations::dimension_of("axes", op.axes[i], x.rank());
    for (std::size_t k = 0; k < i; ++k) {
      if (axes.all[k].dimension != axis.dimension) continue;
      throw invalid_argument("axes", "is " + to_string(op.axes) + ", which names one twice");
    }
    if (x.shape[axis.dimension] == 0) {
      throw inference.refusal(op.x, "has the shape ", x.shape, ", without elements along the axis");
    }
    if (scales != 0) {
      axis.scale = op.scales[i];
    } else {
      axis.size = op.sizes.empty() ? y->shape[axis.dimension] : op.sizes[i];
      if (axis.size < 1) {
        throw invalid_argument("sizes", std::to_string(axis.size) + " is less than 1");
      }
    }
  }
  return axes;
}

/// The extent that a real number of elements stands for.
std::int64_t whole_extent(const char* name, long double elements) {
  constexpr long double most = 0x1p62L;
  if (!(elements >= 1) || elements > most) {
    throw invalid_argument(name, "leave no element or too many of them along an axis");
  }
  return static_cast<std::int64_t>(elements);
}

/// Works out the sizes of y.
void resolve_sizes(const resize& op, const tensor_spec& x, stated_axes& axes) {
  const auto extent = [&](std::size_t i) {
    return x.shape[axes.all[i].dimension];
  };
  const auto all = axes.all;
  for (std::size_t i = 0; i < axes.count; ++i) {
    auto& axis = axes.all[i];
    if (axis.scale != 0) {
      auto elements = static_cast<long double>(extent(i)) * axis.scale;
      if (op.coordinates == resize_coordinates::crop) {
        elements *= op.roi_end[i] - op.roi_begin[i];
      }
      axis.size = whole_extent("scales", std::floor(elements));
    } else if (op.policy != resize_policy::stretch) {
      // The axis whose scale serves all.
      std::size_t leading = 0;
      const auto scale = [&](std::size_t k) {
        return static_cast<long double>(all[k].size) / static_cast<long double>(extent(k));
      };
      for (std::size_t k = 1; k < axes.count; ++k) {
        if (op.policy == resize_policy::not_larger ? scale(k) < scale(leading)
                                                   : scale(k) > scale(leading)) {
          leading = k;
        }
      }
      axis.scale = static_cast<double>(scale(leading));
      const auto elements = static_cast<long double>(all[leading].size) *
                            static_cast<long double>(extent(i)) /
                            static_cast<long double>(extent(leading));
      axis.size = whole_extent("sizes", std::floor(elements + 0.5L));
    }
  }
}

/// An axis with the positions of its results.
resize_axis make_axis(const resize& op, const stated_axis& stated, std::size_t number,
                      std::int64_t extent, std::int64_t stride) {
  resize_axis axis{.extent = extent, .stride = stride, .result = stated.size};
  const auto n = static_cast<double>(extent);
  const auto m = static_cast<double>(stated.size);
  axis.numerator = stated.scale != 0 ? 1 : n;
  axis.denominator = stated.scale != 0 ? stated.scale : m;
  const double scale = axis.denominator / axis.numerator;
  if (op.antialias) axis.filter_scale = std::min(scale, 1.0);
  const auto place = [&](double step, double steps, double offset) {
    axis.is_centred = false;
    axis.numerator = step;
    axis.denominator = steps;
    axis.offset = offset;
  };
  switch (op.coordinates) {
    case resize_coordinates::half_pixel:
      break;
    case resize_coordinates::half_pixel_symmetric:
      if (stated.scale != 0) axis.offset = n / 2 * (1 - m / (stated.scale * n));
      break;
    case resize_coordinates::pytorch_half_pixel:
      if (stated.size == 1) place(0, 1, 0);
      break;
    case resize_coordinates::align_corners:
      place(stated.size == 1 ? 0 : n - 1, stated.size == 1 ? 1 : m - 1, 0);
      break;
    case resize_coordinates::asymmetric:
      axis.is_centred = false;
      break;
    case resize_coordinates::crop: {
      const double begin = op.roi_begin[number];
      const double end = op.roi_end[number];
      if (stated.size == 1) {
        place(0, 1, 0.5 * (begin + end) * (n - 1));
      } else {
        place((end - begin) * (n - 1), m - 1, begin * (n - 1));
      }
      break;
    }
  }
  return axis;
}

/// Whether results are the elements at their own positions.
bool is_identity(const resize_axis& axis) {
  return axis.result == axis.extent && axis.numerator == axis.denominator && axis.offset == 0 &&
         axis.filter_scale == 1;
}

resize_call infer_resize(const resize& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const bool is_small_integer = x.type == element_type::u8 || x.type == element_type::i8;
  if (!is_small_integer && !operations::is_floating_point(x.type)) {
    throw inference.refusal(op.x, "is of type ", x.type,
                            ", but must be u8, i8, f16, bf16, f32 or f64");
  }
  require_parameters(op);
  auto axes = require_axes(op, inference, x);
  resolve_sizes(op, x, axes);
  resize_call call;
  call.type = x.type;
  call.shape = x.shape;
  for (std::size_t i = 0; i < axes.count; ++i) call.shape[axes.all[i].dimension] = axes.all[i].size;
  const auto& y = inference.result(op.y, x.type, call.shape);
  call.count = static_cast<std::int64_t>(y.size());
  if (call.count == 0) {
    for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
    return call;
  }
  call.y_strides = y.strides;
  call.x_strides = x.strides;
  call.filter = {.mode = op.mode,
                 .rounding = op.rounding,
                 .excludes_outside = op.exclude_outside,
                 .crops = op.coordinates == resize_coordinates::crop,
                 .a = op.a};
  call.extrapolation = op.extrapolation;
  // In the order of dimensions, as images have rows and columns.
  for (std::size_t d = 0; d < x.rank(); ++d) {
    for (std::size_t i = 0; i < axes.count; ++i) {
      if (axes.all[i].dimension != d) continue;
      const auto axis = make_axis(op, axes.all[i], i, x.shape[d], x.strides[d]);
      // So that no product of two numbers overflows.
      constexpr auto most = std::int64_t{1} << 31U;
      if (op.mode == resize_mode::area && (axis.extent > most || axis.result > most)) {
        throw inference.refusal(op.x, "has the shape ", x.shape,
                                ", but the mode area takes extents up to 2^31");
      }
      // The extents along one axis may depend on those along the others.
      if (!is_identity(axis) || op.policy != resize_policy::stretch) inference.couple(op.x, d);
      if (is_identity(axis)) continue;
      call.dimensions[static_cast<std::size_t>(call.axis_count)] = d;
      call.axes[call.axis_count++] = axis;
    }
  }
  call.key.workspace_bytes = operations::scratch_bytes(call);
  return call;
}

void compute_resize(const resize_call& call, const launch_of<resize>& launch) {
  if (call.count == 0) return;
  host::compute_map(whole_pass(call), operations::addresses_of<resize, &resize::x>(launch));
}

void enqueue_resize(lane_libraries& libraries, const resize_call& call,
                    const launch_of<resize>& launch) {
  if (call.count == 0) return;
  const auto addresses = operations::addresses_of<resize, &resize::x>(launch);
  if (!call.is_separable()) {
    return cuda::enqueue_map(libraries, whole_pass(call), addresses);
  }
  auto* const scratch = static_cast<std::byte*>(launch.workspace());
  const auto passes = separate_passes(call);
  for (int i = 0; i < call.axis_count; ++i) {
    const auto& separate = passes[static_cast<std::size_t>(i)];
    auto places = addresses;
    if (i > 0) places.inputs[0] = scratch + separate.source;
    if (i + 1 < call.axis_count) places.y = scratch + separate.target;
    cuda::enqueue_map(libraries, separate.pass, places);
  }
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<resize>) {
  static const typed_operation_descriptor<resize, resize_call> descriptor(
      {.name = "resize",
       .infer = infer_resize,
       .host = {.library = "sluice"},
       .compute = compute_resize,
       .cuda = {.library = "sluice",
                .prepare = operations::with_cuda<cuda::prepare_map<operations::resize_pass>>(),
                .make_plan = operations::make_workspace_plan<resize_call>},
       .enqueue = operations::with_cuda<enqueue_resize>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
