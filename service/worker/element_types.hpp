// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/datatype.hpp"

#include <sluice/runtime/element_type.hpp>

#include <optional>

namespace sluice::service {

/// The element type of tensors with a type of the protocol.
[[nodiscard]] element_type element_type_of(datatype type) noexcept;
/// The inverse of `element_type_of`; nothing for complex numbers and floats of 8 bits.
[[nodiscard]] std::optional<datatype> datatype_of(element_type type) noexcept;

}  // namespace sluice::service
