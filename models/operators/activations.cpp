// SPDX-License-Identifier: Apache-2.0
// The functions between the layers of neural networks.
#include "models/operator_table.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/movement.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/unary.hpp>

#include <array>

namespace sluice::models {

namespace {

template <unary_function Function>
results import_function(const node& n) {
  return n.add(unary{.function = Function, .x = n.input(0)});
}
/// A function with a parameter `alpha` that is 1 if it is not given.
template <unary_function Function>
results import_with_alpha(const node& n) {
  return n.add(
      unary{.function = Function, .x = n.input(0), .alpha = scalar(n.attribute("alpha", 1.0))});
}

results import_leaky_relu(const node& n) {
  return n.add(leaky_relu(n.input(0), n.attribute("alpha", 0.01)));
}
results import_hard_sigmoid(const node& n) {
  return n.add(unary{.function = unary_function::hard_sigmoid,
                     .x = n.input(0),
                     .alpha = scalar(n.attribute("alpha", 0.2)),
                     .beta = scalar(n.attribute("beta", 0.5))});
}
results import_selu(const node& n) {
  return n.add(unary{.function = unary_function::selu,
                     .x = n.input(0),
                     .alpha = scalar(n.attribute("alpha", 1.67326319217681884765625)),
                     .beta = scalar(n.attribute("gamma", 1.05070102214813232421875))});
}
results import_shrink(const node& n) {
  return n.add(shrink(n.input(0), n.attribute("lambd", 0.5), n.attribute("bias", 0.0)));
}
results import_gelu(const node& n) {
  const auto approximation = n.attribute("approximate", "none");
  if (approximation == "tanh") return n.add(gelu_tanh(n.input(0)));
  if (approximation == "none") return n.add(gelu(n.input(0)));
  throw n.refusal("approximate", "is '" + approximation + "' instead of none or tanh");
}
results import_swiglu(const node& n) {
  return n.add(multiply(n.add(silu(n.input(0), n.attribute("alpha", 1.0))), n.input(1)));
}
/// Bounds are attributes up to version 6, and inputs since version 11.
results import_clip(const node& n) {
  auto y = n.input(0);
  if (n.opset() < 11) {
    const auto bound = [&](const char* name) {
      return n.has_attribute(name) ? std::optional<scalar>(n.attribute(name, 0.0)) : std::nullopt;
    };
    return n.add(clip(y, bound("min"), bound("max")));
  }
  if (n.has_input(1)) y = n.add(maximum(y, n.input(1)));
  if (n.has_input(2)) y = n.add(minimum(y, n.input(2)));
  return y;
}
/// 1 at the first largest element along a dimension, and 0 elsewhere.
results import_hardmax(const node& n) {
  auto x = n.input(0);
  const auto shape = x.shape();
  const auto axis =
      n.dimension(n.attribute("axis", std::int64_t{n.opset() < 13 ? 1 : -1}), x.rank());
  auto largest_axis = static_cast<std::int64_t>(axis);
  if (n.opset() < 13) {  // of a matrix
    std::int64_t rows = 1;
    for (std::size_t i = 0; i < axis; ++i) rows *= shape[i];
    x = x.reshape({rows, -1});
    largest_axis = 1;
  }
  const auto best = n.add(reduce{.x = x, .kind = reduction::argmax, .axes = {largest_axis}});
  return n
      .add(one_hot{.indices = best,
                   .depth = x.extent(static_cast<std::size_t>(largest_axis)),
                   .axis = largest_axis,
                   .type = x.type()})
      .reshape(shape);
}

constexpr std::array activation_entries{
    operator_entry{"Celu", import_with_alpha<unary_function::celu>},
    operator_entry{"Clip", import_clip},
    operator_entry{"Elu", import_with_alpha<unary_function::elu>},
    operator_entry{"Gelu", import_gelu},
    operator_entry{"HardSigmoid", import_hard_sigmoid},
    operator_entry{"HardSwish", import_function<unary_function::hard_swish>},
    operator_entry{"Hardmax", import_hardmax},
    operator_entry{"LeakyRelu", import_leaky_relu},
    operator_entry{"Mish", import_function<unary_function::mish>},
    operator_entry{"Relu", import_function<unary_function::relu>},
    operator_entry{"Selu", import_selu},
    operator_entry{"Shrink", import_shrink},
    operator_entry{"Sigmoid", import_function<unary_function::sigmoid>},
    operator_entry{"Softplus", import_function<unary_function::softplus>},
    operator_entry{"Softsign", import_function<unary_function::softsign>},
    operator_entry{"SwiGLU", import_swiglu},
    operator_entry{"Swish", import_with_alpha<unary_function::silu>},
    operator_entry{"Tanh", import_function<unary_function::tanh>},
    operator_entry{"ThresholdedRelu", import_with_alpha<unary_function::thresholded_relu>},
};

}  // namespace

std::span<const operator_entry> activation_operators() {
  return activation_entries;
}

}  // namespace sluice::models
