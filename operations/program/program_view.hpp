// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/extents.hpp>
#include <sluice/runtime/tensor_layout.hpp>

#include <cstdint>
#include <string>

namespace sluice::detail {

/// A view of a value of a program, as data: a function of `program_value` and its parameters.
struct program_view {
  enum class function : std::uint8_t {
    reshape,     ///< the shape
    permute,     ///< the axes
    transposed,  ///< no number
    slice,       ///< the axis, the first index, the step and, unless it is the end, the last index
    select,      ///< the axis and the index
    unsqueeze,   ///< the axis
    broadcast_to,  ///< the shape
    reinterpret,   ///< the type
    require,       ///< the type and the shape that the value must have
  };

  function what = function::transposed;
  extents numbers{};                     ///< the parameters, as the enumerators state them
  element_type type = element_type::u8;  ///< of `reinterpret` and `require`

  /// The view of a value with this layout.
  /// @throws error what the view refuses
  [[nodiscard]] tensor_layout operator()(const tensor_layout& layout) const;
  /// The view in words: "transposed()"; empty for `require`.
  [[nodiscard]] std::string text() const;
};

}  // namespace sluice::detail
