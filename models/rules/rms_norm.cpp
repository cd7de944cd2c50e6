// SPDX-License-Identifier: Apache-2.0
// x / √(mean(x²) + epsilon)
#include "models/rules/root_mean_square.hpp"
#include "models/rules/rules.hpp"

#include <sluice/operations/normalization.hpp>

namespace sluice::models {

bool recognize_rms_norm(optimizer& state, std::size_t step) {
  const auto found = normalized_by(state, step);
  return found && state.is_closed(found->steps, step) &&
         state.replace(
             step,
             rms_norm{.x = operand_of(found->x), .axis = found->axis, .epsilon = found->epsilon});
}

}  // namespace sluice::models
