// SPDX-License-Identifier: Apache-2.0
// (x - mean(x)) / √(mean((x - mean(x))²) + epsilon)
#include "models/rules/reduced_axes.hpp"
#include "models/rules/root_mean_square.hpp"
#include "models/rules/rules.hpp"

#include <sluice/operations/normalization.hpp>

namespace sluice::models {

bool recognize_layer_norm(optimizer& state, std::size_t step) {
  auto found = normalized_by(state, step);
  if (!found) return false;
  const auto* const difference = state.maker(found->x, binary_function::subtract, &found->steps);
  if (difference == nullptr || !difference->a || !difference->b) return false;
  const auto x = state.value_of(difference->a);
  const auto* const mean = state.maker<reduce>(state.value_of(difference->b), &found->steps);
  if (mean == nullptr || mean->kind != reduction::mean || state.value_of(mean->x) != x)
    return false;
  if (first_axis(*mean, state.graph().spec(x).rank()) != found->axis) return false;
  return state.is_closed(found->steps, step) &&
         state.replace(
             step, layer_norm{.x = operand_of(x), .axis = found->axis, .epsilon = found->epsilon});
}

}  // namespace sluice::models
