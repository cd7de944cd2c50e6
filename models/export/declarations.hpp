// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"

#include <sluice/operations/model_source.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sluice::models {

/// Checks that the name of an input, output or value is UTF-8.
/// @throws error `invalid_argument` with the name if it is not
void require_utf8(const std::string& name);
/// Checks that a list has one name for each of `count` inputs or outputs.
/// @throws error `invalid_argument` with the name of the list if it has not
void require_names(const char* list, const std::vector<model_value>& values, std::size_t count);

/// The properties that a declaration states; nothing if a type or an extent is left open.
[[nodiscard]] std::optional<tensor_spec> spec_of_declaration(const model_value& value);
/// Lets a declaration state a type and a shape.
void set_properties(model_value& value, element_type type, const extents& shape);
/// Writes a declaration.
void declare(const model_value& value, onnx::ValueInfoProto& message);

}  // namespace sluice::models
