// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/fused_map.hpp"
#include "operations/program/program_inference.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

namespace sluice::operations {

/// A step that can be in a group of steps that are computed as one map.
struct fusible_step {
  static constexpr auto no_value = std::numeric_limits<std::uint32_t>::max();

  std::optional<fused_call> call{};  ///< of a map
  std::uint32_t result = 0;          ///< a value
  std::array<std::uint32_t, fused_map::max_arguments> inputs{no_value, no_value, no_value};
  extents shape{};  ///< of the result; of a reduction, of what it reduces
  std::array<extents, fused_map::max_arguments> strides{};  ///< of the inputs, along `shape`
  /// Of a reduction, which can only be the last step of a group.
  ///@{
  reduce_call reduction{};                           ///< as it is computed alone
  std::array<bool, extents::max_rank> is_reduced{};  ///< by dimension
  bool keeps_dimensions = false;
  ///@}
};

/// A step as one of a group; nothing if it is always computed alone.
[[nodiscard]] std::optional<fusible_step> fusible_step_of(const detail::program_graph& graph,
                                                          const program_inference& inferred,
                                                          std::uint32_t number);

/// The strides of the operands of a map along the dimensions of its last value: the first one is
/// that of the value itself.
struct fused_operands {
  std::array<extents, fused_map::operands> strides{};
  std::array<element_type, fused_map::operands> types{};
};
/// Sets the layouts of a map whose last value the step `last` reduces to `y`.
void add_reduction(fused_map& map, const fusible_step& last, const tensor_layout& y,
                   const fused_operands& operands);

}  // namespace sluice::operations
