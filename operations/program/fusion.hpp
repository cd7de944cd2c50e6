// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/fused_map.hpp"
#include "operations/program/folding.hpp"
#include "operations/program/program_inference.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sluice::operations {

/// Steps that are computed as one map.
struct fused_group {
  std::vector<std::uint32_t> steps{};   ///< in order; the last one makes the result
  std::vector<std::uint32_t> inputs{};  ///< values, by input of the map
  std::shared_ptr<const fused_map> map{};
};

/// Which steps of a program are computed together. The steps of a group are computed where the last
/// of them stands.
struct fusion {
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  std::vector<fused_group> groups{};
  std::vector<std::uint32_t> group_of_step{};  ///< `none`: it is computed alone
  /// By value that is no view: the last step that reads it, plus 1, where that is computed.
  std::vector<std::uint32_t> last_read{};

  /// Each step alone.
  explicit fusion(const detail::program_graph& graph);
  /// The number of steps in groups.
  [[nodiscard]] std::size_t steps() const noexcept;
};

/// Finds neighbouring element-wise steps: those whose results only steps of one group read, at the
/// index at which they were made. No step of `folded` is one of them.
[[nodiscard]] fusion fuse(const detail::program_graph& graph, const program_inference& inferred,
                          const folding& folded);

}  // namespace sluice::operations
