// SPDX-License-Identifier: Apache-2.0
#include "models/export/declarations.hpp"

#include "models/element_types.hpp"
#include "models/export/utf8.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

namespace sluice::models {

void require_utf8(const std::string& name) {
  if (is_utf8(name)) return;
  auto printable = name;
  std::replace_if(
      printable.begin(), printable.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  throw invalid_argument(printable, "the name is not UTF-8");
}

void require_names(const char* list, const std::vector<model_value>& values, std::size_t count) {
  if (values.size() != count) {
    throw invalid_argument(list, "are " + std::to_string(values.size()) + ", but the program has " +
                                     std::to_string(count));
  }
  std::set<std::string_view> names;
  for (const auto& value : values) {
    if (value.name.empty()) throw invalid_argument(list, "one has no name");
    if (!names.insert(value.name).second)
      throw invalid_argument(list, "two have the name " + value.name);
  }
}

std::optional<tensor_spec> spec_of_declaration(const model_value& value) {
  if (!value.type || !value.shape) return std::nullopt;
  extents shape;
  for (const auto& dimension : *value.shape) {
    if (!dimension.extent) return std::nullopt;
    shape.push_back(*dimension.extent);
  }
  return tensor_spec::row_major(*value.type, shape);
}

void set_properties(model_value& value, element_type type, const extents& shape) {
  value.type = type;
  auto& dimensions = value.shape.emplace();
  for (const auto extent : shape) dimensions.push_back({.extent = extent});
}

void declare(const model_value& value, onnx::ValueInfoProto& message) {
  message.set_name(value.name);
  if (!value.type) return;
  auto& type = *message.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_number_of(*value.type));
  if (!value.shape) return;
  auto& shape = *type.mutable_shape();
  for (const auto& dimension : *value.shape) {
    auto& message_of_dimension = *shape.add_dim();
    require_utf8(dimension.symbol);
    if (dimension.extent) {
      message_of_dimension.set_dim_value(*dimension.extent);
    } else if (!dimension.symbol.empty()) {
      message_of_dimension.set_dim_param(dimension.symbol);
    }
  }
}

}  // namespace sluice::models
