// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::models {

/// Whether the definition of an operator in this version of ONNX's own operator set has an
/// attribute. True for an operator that ONNX does not define.
[[nodiscard]] bool has_attribute(std::string_view name, std::int64_t opset,
                                 std::string_view attribute) noexcept;

}  // namespace sluice::models
