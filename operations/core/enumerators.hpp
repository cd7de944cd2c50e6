// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/inference.hpp>
#include <sluice/runtime/element_type.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace sluice::operations {

/// Refuses a parameter whose value is none of its type's enumerators, which end with `last`.
/// @throws error `invalid_argument` with the parameter's `name`
template <class Enumeration>
void require_enumerator(std::string_view name, Enumeration value, Enumeration last) {
  static_assert(std::is_unsigned_v<std::underlying_type_t<Enumeration>>);
  if (value <= last) return;
  throw invalid_argument(name,
                         std::to_string(static_cast<std::underlying_type_t<Enumeration>>(value)) +
                             " is not a valid value");
}
/// Refuses a parameter that is given and is no element type.
/// @throws error `invalid_argument` with the parameter's `name`
inline void require_type(std::string_view name, const std::optional<element_type>& value) {
  if (value) require_enumerator(name, *value, element_type::c128);
}

}  // namespace sluice::operations
