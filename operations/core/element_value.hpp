// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/scalar.hpp>
#include <sluice/runtime/element_type.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace sluice::operations {

/// The bytes of an element; those behind its size are 0.
using element_bytes = std::array<std::byte, 16>;

/// A number as an element of a type.
/// @throws error `invalid_argument` with the name `argument` if the type does not hold the number
[[nodiscard]] element_bytes element_value(const scalar& value, element_type type,
                                          std::string_view argument);

}  // namespace sluice::operations
