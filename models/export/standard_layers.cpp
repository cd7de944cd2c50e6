// SPDX-License-Identifier: Apache-2.0
// Products, convolutions, pools and normalizations.
#include "models/export/standard_node.hpp"

#include <array>

namespace sluice::models {

namespace {

bool is_of_gemm(element_type type) {
  return type == element_type::f16 || type == element_type::bf16 || type == element_type::f32 ||
         type == element_type::f64;
}
/// Whether the import takes such a bias as the `bias` of the product.
bool is_bias_of(const tensor_spec& bias, const tensor_spec& product) {
  const auto& shape = product.shape;
  if (bias.rank() == 1) return bias.shape[0] == shape[1] || bias.shape[0] == 1;
  return bias.rank() == 2 &&
         ((bias.shape[0] == 1 && (bias.shape[1] == shape[1] || bias.shape[1] == 1)) ||
          (bias.shape[0] == shape[0] && bias.shape[1] == 1));
}

bool write_gemm(standard_node& node) {
  constexpr std::size_t a = 0;
  constexpr std::size_t b = 1;
  constexpr std::size_t c = 2;
  constexpr std::size_t bias = 3;
  constexpr std::size_t residual = 4;
  const auto product = node.operation<gemm>();
  const auto* const a_spec = node.spec(a);
  const auto* const b_spec = node.spec(b);
  const auto* const result = node.result();
  if (!product || a_spec == nullptr || b_spec == nullptr || result == nullptr) return false;
  const bool is_plain = !node.has_input(c) && !node.has_input(residual) &&
                        product->beta.is_zero() && product->activation == activation::none &&
                        product->new_c == layout::row_major && !product->type &&
                        product->math == math_mode::f32;
  if (!is_plain || !is_of_gemm(a_spec->type) || b_spec->type != a_spec->type) return false;
  const auto alpha = product->alpha.to<std::complex<double>>("alpha");
  if (alpha == 1.0 && !node.has_input(bias)) return node.write("MatMul", {a, b});
  const bool is_matrix = a_spec->rank() == 2 && b_spec->rank() == 2;
  if (!is_matrix || alpha.imag() != 0 || !node.is_float(alpha.real())) return false;
  if (node.has_input(bias)) {
    const auto* const bias_spec = node.spec(bias);
    const bool fits =
        bias_spec != nullptr && bias_spec->type == a_spec->type && is_bias_of(*bias_spec, *result);
    if (!fits) return false;
  }
  node.set_float("alpha", alpha.real());
  return node.has_input(bias) ? node.write("Gemm", {a, b, bias}) : node.write("Gemm", {a, b});
}

/// A list with one number for each dimension, which may be left out.
bool is_list_for(const extents& list, std::size_t count) {
  return list.empty() || list.size() == count;
}
template <class Operation>
bool has_lists_for(const Operation& operation, std::size_t count) {
  return is_list_for(operation.strides, count) && is_list_for(operation.before, count) &&
         is_list_for(operation.after, count) && is_list_for(operation.dilation, count);
}
/// Writes the attributes of a window.
template <class Operation>
void set_window(standard_node& node, const Operation& operation, std::size_t count) {
  if (!operation.strides.empty()) node.set("strides", operation.strides);
  if (!operation.dilation.empty()) node.set("dilations", operation.dilation);
  if (operation.before.empty() && operation.after.empty()) return;
  const auto number = [](const extents& list, std::size_t i) {
    return list.empty() ? std::int64_t{0} : list[i];
  };
  extents pads;
  for (std::size_t i = 0; i < count; ++i) pads.push_back(number(operation.before, i));
  for (std::size_t i = 0; i < count; ++i) pads.push_back(number(operation.after, i));
  node.set("pads", pads);
}

/// The import may copy filters for images in another order.
template <class Operation>
bool is_plain_convolution(const standard_node& node, const Operation& operation) {
  constexpr std::size_t x = 0;
  constexpr std::size_t residual = 3;
  const auto* const spec = node.spec(x);
  return spec != nullptr && spec->is_contiguous() && spec->rank() >= 3 && spec->rank() <= 5 &&
         !node.has_input(residual) && operation.activation == activation::none &&
         operation.math == math_mode::f32 && has_lists_for(operation, spec->rank() - 2);
}
bool write_inputs_of_convolution(standard_node& node, const char* op_type) {
  constexpr std::size_t bias = 2;
  return node.has_input(bias) ? node.write(op_type, {0, 1, bias}) : node.write(op_type, {0, 1});
}
bool write_convolution(standard_node& node) {
  const auto operation = node.operation<convolution>();
  if (!operation || !is_plain_convolution(node, *operation)) return false;
  set_window(node, *operation, node.spec(0)->rank() - 2);
  node.set("group", operation->groups);
  return write_inputs_of_convolution(node, "Conv");
}
bool write_transposed_convolution(standard_node& node) {
  const auto operation = node.operation<transposed_convolution>();
  if (!operation || !is_plain_convolution(node, *operation)) return false;
  const auto count = node.spec(0)->rank() - 2;
  if (!is_list_for(operation->output_padding, count)) return false;
  set_window(node, *operation, count);
  if (!operation->output_padding.empty()) node.set("output_padding", operation->output_padding);
  node.set("group", operation->groups);
  return write_inputs_of_convolution(node, "ConvTranspose");
}

bool write_pool(standard_node& node) {
  const auto operation = node.operation<pool>();
  if (!operation) return false;
  const auto count = operation->window.size();
  if (count == 0 || 2 * count > extents::max_rank || !has_lists_for(*operation, count))
    return false;
  const bool is_average = operation->kind == pooling::average;
  const bool is_lp = operation->kind == pooling::lp;
  if ((!is_lp && operation->p != 2) || (!is_average && operation->count_padding)) return false;
  node.set("kernel_shape", operation->window);
  set_window(node, *operation, count);
  node.set("ceil_mode", operation->ceil_mode ? 1 : 0);
  if (is_average) node.set("count_include_pad", operation->count_padding ? 1 : 0);
  if (is_lp) node.set("p", operation->p);
  return node.write(is_average ? "AveragePool" : is_lp ? "LpPool" : "MaxPool", {0});
}
bool write_max_pool_with_indices(standard_node& node) {
  const auto operation = node.operation<max_pool_with_indices>();
  if (!operation || operation->within_plane) return false;
  const auto count = operation->window.size();
  if (count == 0 || 2 * count > extents::max_rank || !has_lists_for(*operation, count))
    return false;
  node.set("kernel_shape", operation->window);
  set_window(node, *operation, count);
  node.set("ceil_mode", operation->ceil_mode ? 1 : 0);
  return node.write("MaxPool", {0});
}

/// Whether the parameters have the type of the data, so that the import does not convert them.
bool has_one_type(const standard_node& node, std::initializer_list<std::size_t> operands) {
  const auto* const x = node.spec(0);
  if (x == nullptr) return false;
  for (const auto operand : operands) {
    if (!node.has_input(operand)) continue;
    const auto* const spec = node.spec(operand);
    if (spec == nullptr || spec->type != x->type) return false;
  }
  return true;
}
bool write_layer_norm(standard_node& node) {
  const auto operation = node.operation<layer_norm>();
  if (!operation || !node.has_input(1) || !has_one_type(node, {1, 2}) ||
      !node.is_float(operation->epsilon))
    return false;
  node.set("axis", operation->axis);
  node.set_float("epsilon", operation->epsilon);
  return node.has_input(2) ? node.write("LayerNormalization", {0, 1, 2})
                           : node.write("LayerNormalization", {0, 1});
}
bool write_batch_norm(standard_node& node) {
  constexpr std::size_t mean = 1;
  constexpr std::size_t variance = 2;
  constexpr std::size_t scale = 3;
  constexpr std::size_t bias = 4;
  const auto operation = node.operation<batch_norm>();
  if (!operation || !node.has_input(scale) || !node.has_input(bias) ||
      !has_one_type(node, {mean, variance, scale, bias}) || !node.is_float(operation->epsilon))
    return false;
  node.set_float("epsilon", operation->epsilon);
  return node.write("BatchNormalization", {0, scale, bias, mean, variance});
}
/// With as many groups as channels.
bool write_group_norm(standard_node& node) {
  const auto operation = node.operation<group_norm>();
  if (!operation || !node.has_input(1) || !node.has_input(2) || !has_one_type(node, {1, 2}) ||
      !node.is_float(operation->epsilon))
    return false;
  const auto* const x = node.spec(0);
  if (x->rank() < 3 || x->shape[1] != operation->groups) return false;
  node.set_float("epsilon", operation->epsilon);
  return node.write("InstanceNormalization", {0, 1, 2});
}
bool write_local_response_norm(standard_node& node) {
  const auto operation = node.operation<local_response_norm>();
  if (!operation || !node.is_float(operation->alpha) || !node.is_float(operation->beta) ||
      !node.is_float(operation->bias))
    return false;
  node.set("size", operation->size);
  node.set_float("alpha", operation->alpha);
  node.set_float("beta", operation->beta);
  node.set_float("bias", operation->bias);
  return node.write("LRN", {0});
}
bool write_lp_norm(standard_node& node) {
  const auto operation = node.operation<lp_norm>();
  if (!operation) return false;
  node.set("axis", operation->axis);
  node.set("p", operation->p);
  return node.write("LpNormalization", {0});
}
template <class Operation>
bool write_softmax(standard_node& node, const char* op_type) {
  const auto operation = node.operation<Operation>();
  if (!operation) return false;
  node.set("axis", operation->axis);
  return node.write(op_type, {0});
}

constexpr std::array layer_forms_of_onnx{
    standard_form{"batch_norm", write_batch_norm},
    standard_form{"convolution", write_convolution},
    standard_form{"gemm", write_gemm},
    standard_form{"group_norm", write_group_norm},
    standard_form{"layer_norm", write_layer_norm},
    standard_form{"local_response_norm", write_local_response_norm},
    standard_form{"log_softmax",
                  [](standard_node& node) {
                    return write_softmax<log_softmax>(node, "LogSoftmax");
                  }},
    standard_form{"lp_norm", write_lp_norm},
    standard_form{"max_pool_with_indices", write_max_pool_with_indices},
    standard_form{"pool", write_pool},
    standard_form{"softmax",
                  [](standard_node& node) {
                    return write_softmax<softmax>(node, "Softmax");
                  }},
    standard_form{"transposed_convolution", write_transposed_convolution},
};

}  // namespace

std::span<const standard_form> standard_layer_forms() {
  return layer_forms_of_onnx;
}

}  // namespace sluice::models
