// SPDX-License-Identifier: Apache-2.0
// One number for many, and elements in order.
#include "models/export/standard_node.hpp"

#include <array>

namespace sluice::models {

namespace {

const char* name_of_reduction(reduction kind) {
  switch (kind) {
    case reduction::sum:
      return "ReduceSum";
    case reduction::mean:
      return "ReduceMean";
    case reduction::max:
      return "ReduceMax";
    case reduction::min:
      return "ReduceMin";
    case reduction::product:
      return "ReduceProd";
    case reduction::l1:
      return "ReduceL1";
    case reduction::l2:
      return "ReduceL2";
    case reduction::sum_of_squares:
      return "ReduceSumSquare";
    case reduction::log_sum:
      return "ReduceLogSum";
    case reduction::log_sum_exp:
      return "ReduceLogSumExp";
    case reduction::argmax:
      return "ArgMax";
    case reduction::argmin:
      return "ArgMin";
    case reduction::any:
    case reduction::all:
    case reduction::variance:
      break;
  }
  return nullptr;
}

bool write_reduce(standard_node& node) {
  const auto operation = node.operation<reduce>();
  const auto* const name = operation ? name_of_reduction(operation->kind) : nullptr;
  if (name == nullptr || operation->correction != 0) return false;
  const auto& axes = operation->axes;
  if (operation->kind == reduction::argmax || operation->kind == reduction::argmin) {
    if (!axes || axes->size() != 1) return false;
    node.set("axis", (*axes)[0]);
    node.set("keepdims", operation->keep_dims ? 1 : 0);
    node.set("select_last_index", operation->last ? 1 : 0);
    return node.write(name, {0});
  }
  // The import converts a result of another type, and states that of no elements.
  const auto* const x = node.spec(0);
  const bool is_same = x != nullptr && x->size() != 0 && node.result() != nullptr &&
                       node.result()->type == x->type && !operation->last;
  if (!is_same || (axes && axes->empty())) return false;
  node.set("keepdims", operation->keep_dims ? 1 : 0);
  (void)node.write(name, {0});
  if (axes) node.add_integers("axes", *axes);
  return true;
}
bool write_cumulative(standard_node& node) {
  const auto operation = node.operation<cumulative>();
  if (!operation || operation->kind != cumulative_kind::sum) return false;
  node.set("exclusive", operation->exclusive ? 1 : 0);
  node.set("reverse", operation->reverse ? 1 : 0);
  (void)node.write("CumSum", {0});
  node.add_integer("axis", operation->axis);
  return true;
}
bool write_top_k(standard_node& node) {
  const auto operation = node.operation<top_k>();
  if (!operation || operation->k < 0) return false;
  node.set("axis", operation->axis);
  node.set("largest", operation->largest ? 1 : 0);
  (void)node.write("TopK", {0});
  node.add_integers("k", extents{operation->k});
  return true;
}

constexpr std::array reduction_forms_of_onnx{
    standard_form{"cumulative", write_cumulative},
    standard_form{"reduce", write_reduce},
    standard_form{"top_k", write_top_k},
};

}  // namespace

std::span<const standard_form> standard_reduction_forms() {
  return reduction_forms_of_onnx;
}

}  // namespace sluice::models
