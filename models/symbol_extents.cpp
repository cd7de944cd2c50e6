// SPDX-License-Identifier: Apache-2.0
#include "models/symbol_extents.hpp"

#include <sluice/runtime/error.hpp>

#include <cstddef>

namespace sluice::models {

void symbol_extents::add(const model_value& input, const extents& shape) {
  if (!input.shape) return;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto& symbol = (*input.shape)[i].symbol;
    if (symbol.empty()) continue;
    const auto [entry, is_new] = extents_.try_emplace(symbol, shape[i], input.name);
    const auto& [extent, first] = entry->second;
    if (is_new || extent == shape[i]) continue;
    throw invalid_argument(input.name, "has the shape " + to_string(shape) + ", but " + symbol +
                                           " of " + to_string(*input.shape) + " is " +
                                           std::to_string(extent) + " in " + first);
  }
}

}  // namespace sluice::models
