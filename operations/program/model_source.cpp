// SPDX-License-Identifier: Apache-2.0
#include <sluice/operations/model_source.hpp>

namespace sluice {

std::string to_string(const std::vector<model_dimension>& shape) {
  std::string text = "[";
  for (const auto& d : shape) {
    if (text.size() > 1) text += ", ";
    text += d.extent ? std::to_string(*d.extent) : d.symbol.empty() ? "?" : d.symbol;
  }
  return text + "]";
}

void require_fit(const model_value& input, element_type type, const extents& shape) {
  if (input.type && *input.type != type) {
    throw invalid_argument(input.name, "has the type " + std::string(to_string(type)) +
                                           ", but the model declares " +
                                           std::string(to_string(*input.type)));
  }
  if (!input.shape) return;
  bool fits = input.shape->size() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) {
    const auto& extent = (*input.shape)[i].extent;
    fits = !extent || *extent == shape[i];
  }
  if (!fits) {
    throw invalid_argument(input.name, "has the shape " + to_string(shape) +
                                           ", but the model declares " + to_string(*input.shape));
  }
}

}  // namespace sluice
