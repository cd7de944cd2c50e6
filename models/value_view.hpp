// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/program.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstdint>
#include <optional>

namespace sluice::models {

/// A view of a value of a program, as data.
struct value_view {
  /// The functions of `program_value`.
  enum class function : std::uint8_t {
    reshape,
    permute,
    transposed,
    slice,
    select,
    unsqueeze,
    broadcast_to,
    reinterpret,
  };

  function what = function::transposed;
  extents numbers{};  ///< the parameters, in order: the shape, the axes, or the single numbers
  element_type type = element_type::u8;  ///< of `reinterpret`

  [[nodiscard]] bool operator==(const value_view&) const noexcept = default;
  [[nodiscard]] program_value apply(const program_value& x) const;
  /// The properties of this view of a value. Nothing if the elements of the value do not lie so, or
  /// rules make no such views.
  [[nodiscard]] std::optional<tensor_spec> spec_of(const tensor_spec& x) const;
};

}  // namespace sluice::models
