// SPDX-License-Identifier: Apache-2.0
#include "operations/core/element_value.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/range_call.hpp"

#include <sluice/operations/movement.hpp>

#include <cmath>
#include <string>

namespace sluice {
namespace {

using operations::range_call;

/// The number of integers from `start` to `limit`, without the latter.
std::int64_t integer_count(std::int64_t start, std::int64_t limit, std::int64_t step) {
  if (step > 0 ? limit <= start : limit >= start) return 0;
  // The distance of two integers may need all bits.
  const auto first = static_cast<std::uint64_t>(start);
  const auto last = static_cast<std::uint64_t>(limit);
  const auto distance = step > 0 ? last - first : first - last;
  const auto size = step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
  const auto count = (distance - 1) / size + 1;
  if (count >> 63U != 0) throw invalid_argument("limit", "is too far from start");
  return static_cast<std::int64_t>(count);
}

/// Likewise of real numbers.
std::int64_t real_count(double start, double limit, double step) {
  const double count = std::ceil((limit - start) / step);
  if (!(count < 0x1p62)) throw invalid_argument("limit", "is too far from start");
  return count < 0 ? 0 : static_cast<std::int64_t>(count);
}

range_call infer_range(const range& op, inference& inference) {
  const auto* const output_spec = inference.given(op.y);
  operations::require_type("type", op.type);
  const auto type = op.type                  ? *op.type
                    : output_spec != nullptr ? output_spec->type
                                             : element_type::f32;
  if (type == element_type::boolean || operations::is_complex(type) ||
      operations::is_float8(type)) {
    throw invalid_argument(op.type ? "type" : "y", "is " + std::string(to_string(type)) +
                                                       ", but must be an integer or a "
                                                       "floating-point type of 16 bits or more");
  }
  if (!op.limit) throw invalid_argument("limit", "is not given");
  if (op.step.is_zero()) throw invalid_argument("step", "is 0");
  range_call call;
  std::int64_t count = 0;
  if (type < element_type::f16) {
    call.start = op.start.to<std::int64_t>("start");
    call.step = op.step.to<std::int64_t>("step");
    count = integer_count(call.start, op.limit->to<std::int64_t>("limit"), call.step);
    if (count > 0) {
      (void)operations::element_value(op.start, type, "start");
      // The product alone may overflow.
      const auto last = static_cast<std::int64_t>(static_cast<std::uint64_t>(call.start) +
                                                  static_cast<std::uint64_t>(count - 1) *
                                                      static_cast<std::uint64_t>(call.step));
      (void)operations::element_value(last, type, "limit");
    }
  } else {
    call.real_start = op.start.to<double>("start");
    call.real_step = op.step.to<double>("step");
    count = real_count(call.real_start, op.limit->to<double>("limit"), call.real_step);
  }
  const auto& y = inference.result(op.y, type, {count});
  call.layout = operations::make_layout<2>({count}, {y.strides, extents{1}}, {type, type});
  return call;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<range>) {
  return operations::descriptor_of_map<range, range_call, infer_range>("range");
}

}  // namespace sluice
