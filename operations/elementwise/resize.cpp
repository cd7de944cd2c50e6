// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/resize_call.hpp"

#include <sluice/operations/resize.hpp>

#include <string>

namespace sluice {
namespace {

using operations::resize_call;

/// A size of the result.
std::int64_t size_of_result(std::int64_t parameter, const tensor_spec* y, std::size_t dimension,
                            const char* name) {
  if (parameter == 0 && y != nullptr) return y->shape[dimension];
  if (parameter == 0) throw invalid_argument(name, "is not given");
  if (parameter < 1) throw invalid_argument(name, std::to_string(parameter) + " is less than 1");
  return parameter;
}

resize_call infer_resize(const resize& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (x.type != element_type::u8 && !operations::is_floating_point(x.type)) {
    throw inference.refusal(op.x, "is of type ", x.type, ", but must be u8, f16, bf16, f32 or f64");
  }
  operations::require_enumerator("layout", op.layout, image_layout::channels_last);
  const std::size_t trailing = op.layout == image_layout::channels_last ? 1 : 0;
  if (x.rank() < 2 + trailing) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", which has too few dimensions");
  }
  const auto row = x.rank() - trailing - 2;
  const auto column = row + 1;
  if (x.shape[row] == 0 || x.shape[column] == 0) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", so images have no pixel");
  }
  const auto* const output_spec = inference.given(op.y);
  if (output_spec != nullptr && output_spec->rank() != x.rank()) {
    throw inference.refusal(op.y, "has the shape ", output_spec->shape, ", but x has the shape ",
                            x.shape);
  }
  auto shape = x.shape;
  shape[row] = size_of_result(op.height, output_spec, row, "height");
  shape[column] = size_of_result(op.width, output_spec, column, "width");
  const auto& y = inference.result(op.y, x.type, shape);
  // Rows and columns are indices: the positions of operands 2 and 3.
  auto image = x.strides;
  image[row] = 0;
  image[column] = 0;
  auto rows = shape;
  auto columns = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    rows[d] = d == row ? 1 : 0;
    columns[d] = d == column ? 1 : 0;
  }
  const auto axis = [&](std::size_t d) -> operations::resized_axis {
    return {x.shape[d], x.strides[d], shape[d]};
  };
  return {.layout = operations::make_layout<4>(shape, {y.strides, image, rows, columns},
                                               {x.type, x.type, x.type, x.type}),
          .rows = axis(row),
          .columns = axis(column)};
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<resize>) {
  return operations::descriptor_of_map<resize, resize_call, infer_resize, &resize::x>("resize");
}

}  // namespace sluice
