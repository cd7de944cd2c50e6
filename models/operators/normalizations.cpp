// SPDX-License-Identifier: Apache-2.0
#include "models/operator_table.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/local_response_norm.hpp>
#include <sluice/operations/normalization.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/unary.hpp>

#include <array>
#include <numeric>

namespace sluice::models {

namespace {

/// An input in the type of the data, in which sluice computes; no operand if it is not given.
operand in_type_of_data(const node& n, std::size_t number) {
  return n.has_input(number) ? operand(n.cast_to(n.input(number), n.input(0).type())) : operand();
}

results import_batch_norm(const node& n) {
  if (n.attribute("training_mode", std::int64_t{0}) != 0) {
    throw n.unsupported("training_mode", "is true");
  }
  return n.add(batch_norm{.x = n.input(0),
                          .mean = in_type_of_data(n, 3),
                          .variance = in_type_of_data(n, 4),
                          .scale = in_type_of_data(n, 1),
                          .bias = in_type_of_data(n, 2),
                          .epsilon = n.attribute("epsilon", 1e-5)});
}
results import_instance_norm(const node& n) {
  return n.add(group_norm{.x = n.input(0),
                          .scale = in_type_of_data(n, 1),
                          .bias = in_type_of_data(n, 2),
                          .groups = n.input(0).rank() > 1 ? n.input(0).extent(1) : 1,
                          .epsilon = n.attribute("epsilon", 1e-5)});
}
results import_group_norm(const node& n) {
  const auto& x = n.input(0);
  const auto groups = n.attribute("num_groups", std::int64_t{1});
  const auto for_channels = [&](std::size_t number) {
    const auto parameter = n.cast_to(n.input(number), x.type());
    const auto channels = x.rank() > 1 ? x.extent(1) : 1;
    if (n.opset() >= 21 || groups < 1 || channels % groups != 0) return parameter;
    // Up to version 20, there is one number for each group.
    const auto each = parameter.reshape({groups, 1}).broadcast_to({groups, channels / groups});
    return n.dense(each).reshape({channels});
  };
  return n.add(group_norm{.x = x,
                          .scale = for_channels(1),
                          .bias = for_channels(2),
                          .groups = groups,
                          .epsilon = n.attribute("epsilon", 1e-5)});
}
/// Also returns the mean and the reciprocal of the standard deviation, if they are wanted.
results import_layer_norm(const node& n) {
  const auto& x = n.input(0);
  const auto axis = n.dimension(n.attribute("axis", std::int64_t{-1}), x.rank());
  const auto epsilon = n.attribute("epsilon", 1e-5);
  results all(n.add(layer_norm{.x = x,
                               .scale = in_type_of_data(n, 1),
                               .bias = in_type_of_data(n, 2),
                               .axis = static_cast<std::int64_t>(axis),
                               .epsilon = epsilon}));
  if (!n.has_output(1) && !n.has_output(2)) return all;
  std::vector<std::int64_t> axes(x.rank() - axis);
  std::iota(axes.begin(), axes.end(), static_cast<std::int64_t>(axis));
  const auto wide = n.cast_to(x, x.type() == element_type::f64 ? x.type() : element_type::f32);
  all.push_back(n.add(reduce{.x = wide,
                             .kind = reduction::mean,
                             .axes = std::optional(extents(axes)),
                             .keep_dims = true}));
  const auto variance = n.add(reduce{.x = wide,
                                     .kind = reduction::variance,
                                     .axes = std::optional(extents(axes)),
                                     .keep_dims = true});
  all.push_back(n.add(rsqrt(n.add(add(variance, n.number(wide.type(), epsilon))))));
  return all;
}
results import_rms_norm(const node& n) {
  return n.add(rms_norm{.x = n.input(0),
                        .scale = in_type_of_data(n, 1),
                        .axis = n.attribute("axis", std::int64_t{-1}),
                        .epsilon = n.attribute("epsilon", 1e-5)});
}
results import_lrn(const node& n) {
  return n.add(local_response_norm{.x = n.input(0),
                                   .size = n.attribute("size", std::int64_t{0}),
                                   .alpha = n.attribute("alpha", 1e-4),
                                   .beta = n.attribute("beta", 0.75),
                                   .bias = n.attribute("bias", 1.0)});
}
results import_lp_norm(const node& n) {
  return n.add(lp_norm{.x = n.input(0),
                       .axis = n.attribute("axis", std::int64_t{-1}),
                       .p = n.attribute("p", std::int64_t{2})});
}
/// Divides by the deviation plus 1e-9.
results import_mean_variance(const node& n) {
  const auto& x = n.input(0);
  const extents axes(n.attribute("axes", std::vector<std::int64_t>{0, 2, 3}));
  const auto reduced = [&](reduction kind) {
    return n.add(reduce{.x = x, .kind = kind, .axes = std::optional(axes), .keep_dims = true});
  };
  const auto difference = n.add(subtract(x, reduced(reduction::mean)));
  const auto deviation = n.add(sqrt(reduced(reduction::variance)));
  return n.add(divide(difference, n.add(add(deviation, n.number(x.type(), 1e-9)))));
}
/// Up to version 12, the dimensions from the axis on are one.
template <class Operation>
results import_softmax(const node& n) {
  const auto& x = n.input(0);
  const bool flat = n.opset() < 13;
  const auto axis = n.dimension(n.attribute("axis", std::int64_t{flat ? 1 : -1}), x.rank());
  if (!flat || axis + 1 == x.rank())
    return n.add(Operation{.x = x, .axis = static_cast<std::int64_t>(axis)});
  const auto shape = x.shape();
  std::int64_t rows = 1;
  for (std::size_t i = 0; i < axis; ++i) rows *= shape[i];
  return n.add(Operation{.x = x.reshape({rows, -1}), .axis = 1}).reshape(shape);
}

constexpr std::array normalization_entries{
    operator_entry{"BatchNormalization", import_batch_norm},
    operator_entry{"GroupNormalization", import_group_norm},
    operator_entry{"InstanceNormalization", import_instance_norm},
    operator_entry{"LRN", import_lrn},
    operator_entry{"LayerNormalization", import_layer_norm},
    operator_entry{"LogSoftmax", import_softmax<log_softmax>},
    operator_entry{"LpNormalization", import_lp_norm},
    operator_entry{"MeanVarianceNormalization", import_mean_variance},
    operator_entry{"RMSNormalization", import_rms_norm},
    operator_entry{"Softmax", import_softmax<softmax>},
};

}  // namespace

std::span<const operator_entry> normalization_operators() {
  return normalization_entries;
}

}  // namespace sluice::models
