// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/inference.hpp>
#include <sluice/runtime/element_type.hpp>

#include <cstdint>
#include <string_view>

namespace sluice::operations {

/// The element types that a function takes. None contains e4m3 and e5m2, which no function
/// computes.
enum class element_set : std::uint8_t { all, not_complex, real, real_or_complex, complex, integer };

/// Whether a set contains a type. `integer` also contains boolean.
[[nodiscard]] constexpr bool contains(element_set set, element_type type) noexcept {
  if (is_float8(type)) return false;
  switch (set) {
    case element_set::all:
      return true;
    case element_set::not_complex:
      return !is_complex(type);
    case element_set::real:
      return is_floating_point(type);
    case element_set::real_or_complex:
      return is_floating_point(type) || is_complex(type);
    case element_set::complex:
      return is_complex(type);
    case element_set::integer:
      return !is_floating_point(type) && !is_complex(type);
  }
  return false;
}

/// The types of a set, as documentation lists them.
[[nodiscard]] constexpr std::string_view to_string(element_set set) noexcept {
  switch (set) {
    case element_set::all:
      return "all but e4m3 and e5m2";
    case element_set::not_complex:
      return "all but e4m3, e5m2, c64 and c128";
    case element_set::real:
      return "f16, bf16, f32, f64";
    case element_set::real_or_complex:
      return "f16, bf16, f32, f64, c64, c128";
    case element_set::complex:
      return "c64, c128";
    case element_set::integer:
      return "boolean, u8 to u64, i8 to i64";
  }
  return {};
}

/// Refuses an operand of a type that `function` does not take.
inline void require_element(const inference& inference, const operand& operand, element_type type,
                            element_set set, std::string_view function) {
  if (contains(set, type)) return;
  constexpr std::string_view all_but = "all but ";
  const auto types = to_string(set);
  const bool lacks_few = types.substr(0, all_but.size()) == all_but;
  throw inference.refusal(operand, "is of type ", type, ", but ", function,
                          lacks_few ? " takes all types but " : " takes these types: ",
                          lacks_few ? types.substr(all_but.size()) : types, "; cast converts");
}

}  // namespace sluice::operations
