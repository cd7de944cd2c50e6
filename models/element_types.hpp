// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/element_type.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::models {

/// The element type with this number in `TensorProto::DataType` of ONNX; nothing if sluice has
/// none.
[[nodiscard]] std::optional<element_type> find_element_type(std::int64_t number) noexcept;
/// Likewise. @throws error `unsupported` with the name of the type in ONNX
[[nodiscard]] element_type require_element_type(std::int64_t number);
/// The number of a type there.
[[nodiscard]] std::int32_t onnx_number_of(element_type type) noexcept;
/// Whether a type is f16, bf16, f32 or f64.
[[nodiscard]] bool is_real(element_type type) noexcept;

/// The positive numbers of such a type.
struct number_range {
  double smallest;  ///< with all digits
  double largest;
};
[[nodiscard]] number_range range_of(element_type type) noexcept;

}  // namespace sluice::models
