// SPDX-License-Identifier: Apache-2.0
// Elements at other places, of other types, and from other tensors.
#include "models/element_types.hpp"
#include "models/export/standard_node.hpp"

#include <array>
#include <cmath>
#include <complex>
#include <vector>

namespace sluice::models {

namespace {

/// The import drops a conversion to the same type.
bool write_cast(standard_node& node) {
  const auto operation = node.operation<cast>();
  const auto* const x = node.spec(0);
  if (!operation || !operation->type || x == nullptr || x->type == *operation->type ||
      *operation->type == element_type::c64 || *operation->type == element_type::c128)
    return false;
  node.set("to", onnx_number_of(*operation->type));
  node.set("saturate", operation->saturate ? 1 : 0);
  return node.write("Cast", {0});
}
bool write_where(standard_node& node) {
  if (!node.operation<where>() || !node.has_input(1) || !node.has_input(2)) return false;
  return node.write("Where", {0, 1, 2});
}
bool write_concatenate(standard_node& node) {
  const auto operation = node.operation<concatenate>();
  if (!operation) return false;
  node.set("axis", operation->axis);
  return node.write_list("Concat");
}
const char* name_of_mode(pad_mode mode) {
  switch (mode) {
    case pad_mode::constant:
      break;
    case pad_mode::edge:
      return "edge";
    case pad_mode::reflect:
      return "reflect";
    case pad_mode::wrap:
      return "wrap";
  }
  return "constant";
}
bool write_pad(standard_node& node) {
  const auto operation = node.operation<pad>();
  const auto* const x = node.spec(0);
  if (!operation || x == nullptr || operation->before.size() != x->rank() ||
      operation->after.size() != x->rank() || operation->value.non_finite() ||
      !operation->value.is_zero() ||
      std::signbit(operation->value.to<std::complex<double>>("value").real()))
    return false;
  node.set_text("mode", name_of_mode(operation->mode));
  (void)node.write("Pad", {0});
  std::vector<std::int64_t> pads(operation->before.begin(), operation->before.end());
  pads.insert(pads.end(), operation->after.begin(), operation->after.end());
  node.add_integers("pads", pads);
  return true;
}
bool write_tile(standard_node& node) {
  const auto operation = node.operation<tile>();
  const auto* const x = node.spec(0);
  if (!operation || x == nullptr || operation->repeats.size() != x->rank()) return false;
  (void)node.write("Tile", {0});
  node.add_integers("repeats", operation->repeats);
  return true;
}
bool write_triangle(standard_node& node) {
  const auto operation = node.operation<triangle>();
  if (!operation) return false;
  node.set("upper", operation->upper ? 1 : 0);
  (void)node.write("Trilu", {0});
  if (operation->diagonal != 0) node.add_integer("k", operation->diagonal);
  return true;
}
bool write_depth_to_space(standard_node& node) {
  const auto operation = node.operation<depth_to_space>();
  if (!operation) return false;
  node.set("blocksize", operation->block);
  node.set_text("mode", operation->order == depth_order::crd ? "CRD" : "DCR");
  return node.write("DepthToSpace", {0});
}
bool write_space_to_depth(standard_node& node) {
  const auto operation = node.operation<space_to_depth>();
  if (!operation || operation->order != depth_order::dcr) return false;
  node.set("blocksize", operation->block);
  return node.write("SpaceToDepth", {0});
}
bool write_reverse_sequence(standard_node& node) {
  const auto operation = node.operation<reverse_sequence>();
  if (!operation) return false;
  node.set("time_axis", operation->time_axis);
  node.set("batch_axis", operation->batch_axis);
  return node.write("ReverseSequence", {0, 1});
}

bool write_gather(standard_node& node) {
  const auto operation = node.operation<gather>();
  if (!operation || operation->out_of_range != out_of_range_policy::usual) return false;
  node.set("axis", operation->axis);
  return node.write("Gather", {0, 1});
}
bool write_gather_elements(standard_node& node) {
  const auto operation = node.operation<gather_elements>();
  if (!operation || operation->out_of_range != out_of_range_policy::usual) return false;
  node.set("axis", operation->axis);
  return node.write("GatherElements", {0, 1});
}
bool write_gather_nd(standard_node& node) {
  const auto operation = node.operation<gather_nd>();
  if (!operation || operation->out_of_range != out_of_range_policy::usual) return false;
  node.set("batch_dims", operation->batch_dims);
  return node.write("GatherND", {0, 1});
}
const char* name_of_combination(scatter_combine combine) {
  switch (combine) {
    case scatter_combine::set:
      break;
    case scatter_combine::add:
      return "add";
    case scatter_combine::multiply:
      return "mul";
    case scatter_combine::minimum:
      return "min";
    case scatter_combine::maximum:
      return "max";
  }
  return "none";
}
template <class Operation>
bool is_plain_scatter(const std::optional<Operation>& operation) {
  return operation && operation->out_of_range == out_of_range_policy::usual &&
         !operation->deterministic;
}
bool write_scatter_elements(standard_node& node) {
  const auto operation = node.operation<scatter_elements>();
  if (!is_plain_scatter(operation)) return false;
  node.set("axis", operation->axis);
  node.set_text("reduction", name_of_combination(operation->combine));
  return node.write("ScatterElements", {0, 1, 2});
}
bool write_scatter_nd(standard_node& node) {
  const auto operation = node.operation<scatter_nd>();
  if (!is_plain_scatter(operation)) return false;
  node.set_text("reduction", name_of_combination(operation->combine));
  return node.write("ScatterND", {0, 1, 2});
}

constexpr std::array movement_forms_of_onnx{
    standard_form{"cast", write_cast},
    standard_form{"concatenate", write_concatenate},
    standard_form{"depth_to_space", write_depth_to_space},
    standard_form{"gather", write_gather},
    standard_form{"gather_elements", write_gather_elements},
    standard_form{"gather_nd", write_gather_nd},
    standard_form{"pad", write_pad},
    standard_form{"reverse_sequence", write_reverse_sequence},
    standard_form{"scatter_elements", write_scatter_elements},
    standard_form{"scatter_nd", write_scatter_nd},
    standard_form{"space_to_depth", write_space_to_depth},
    standard_form{"tile", write_tile},
    standard_form{"triangle", write_triangle},
    standard_form{"where", write_where},
};

}  // namespace

std::span<const standard_form> standard_movement_forms() {
  return movement_forms_of_onnx;
}

}  // namespace sluice::models
