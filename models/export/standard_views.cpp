// SPDX-License-Identifier: Apache-2.0
#include "models/export/attribute_writer.hpp"
#include "models/export/standard_form.hpp"
#include "operations/seam.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice::models {

namespace {

using sluice::detail::program_view;
using view_function = program_view::function;

/// A node with the value and lists of integers as inputs.
class view_node {
 public:
  view_node(const view_description& viewed, onnx::NodeProto& message) noexcept
      : viewed_(viewed), message_(message) {}

  void add(const char* name, const std::vector<std::int64_t>& numbers) {
    message_.add_input(viewed_.add_parameter(name, host_tensor(numbers)));
  }
  bool write(const char* op_type) {
    message_.set_op_type(op_type);
    return true;
  }

 private:
  const view_description& viewed_;
  onnx::NodeProto& message_;
};

std::vector<std::int64_t> list_of(const extents& numbers) {
  return {numbers.begin(), numbers.end()};
}

bool write_reshape(const program_view& view, const view_description& viewed,
                   onnx::NodeProto& message) {
  const auto count = [&](std::int64_t extent) {
    return std::count(view.numbers.begin(), view.numbers.end(), extent);
  };
  // ONNX leaves -1 beside an extent of 0 undefined.
  const bool has_elements = viewed.spec && viewed.spec->size() != 0;
  if (count(-1) != 0 && (!has_elements || count(0) != 0)) return false;
  view_node node(viewed, message);
  node.add("shape", list_of(view.numbers));
  if (count(0) != 0) attribute_writer(message).add_integer("allowzero", 1);
  return node.write("Reshape");
}
bool write_transpose(const view_description& viewed, onnx::NodeProto& message) {
  if (!viewed.spec || viewed.spec->rank() < 2) return false;
  extents axes;
  const auto rank = static_cast<std::int64_t>(viewed.spec->rank());
  for (std::int64_t i = 0; i < rank - 2; ++i) axes.push_back(i);
  axes.push_back(rank - 1);
  axes.push_back(rank - 2);
  attribute_writer(message).add_integers("perm", {axes.begin(), axes.size()});
  message.set_op_type("Transpose");
  return true;
}
bool write_slice(const program_view& view, const view_description& viewed,
                 onnx::NodeProto& message) {
  const auto axis = view.numbers[0];
  const auto first = view.numbers[1];
  const auto step = view.numbers[2];
  const auto last =
      view.numbers.size() > 3 ? view.numbers[3] : std::numeric_limits<std::int64_t>::max();
  // ONNX clamps indices to the extent, and counts negative ones from the end. With a known shape,
  // the view has been checked.
  if (!viewed.spec) return false;
  view_node node(viewed, message);
  node.add("starts", {first});
  node.add("ends", {last});
  node.add("axes", {axis});
  node.add("steps", {step});
  return node.write("Slice");
}
/// Of a dimension with one element.
bool write_squeeze(const program_view& view, const view_description& viewed,
                   onnx::NodeProto& message) {
  const auto axis = static_cast<std::size_t>(view.numbers[0]);
  if (!viewed.spec || axis >= viewed.spec->rank() || viewed.spec->shape[axis] != 1 ||
      view.numbers[1] != 0)
    return false;
  view_node node(viewed, message);
  node.add("axes", {view.numbers[0]});
  return node.write("Squeeze");
}

}  // namespace

bool write_standard_view(const program_view& view, const view_description& viewed,
                         onnx::NodeProto& message) {
  view_node node(viewed, message);
  switch (view.what) {
    case view_function::reshape:
      return write_reshape(view, viewed, message);
    case view_function::permute:
      attribute_writer(message).add_integers("perm", {view.numbers.begin(), view.numbers.size()});
      return node.write("Transpose");
    case view_function::transposed:
      return write_transpose(viewed, message);
    case view_function::slice:
      return write_slice(view, viewed, message);
    case view_function::select:
      return write_squeeze(view, viewed, message);
    case view_function::unsqueeze:
      // ONNX counts negative axes from the end.
      if (view.numbers[0] < 0) return false;
      node.add("axes", {view.numbers[0]});
      return node.write("Unsqueeze");
    case view_function::broadcast_to:
      // ONNX broadcasts in both directions.
      if (!viewed.spec) return false;
      node.add("shape", list_of(view.numbers));
      return node.write("Expand");
    case view_function::reinterpret:
    case view_function::require:
      break;
  }
  return false;
}

}  // namespace sluice::models
