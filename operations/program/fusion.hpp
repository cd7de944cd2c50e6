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

/// Steps that are computed as one: as a map, perhaps with a reduction, or by an operation that has
/// them as its epilogue.
struct fused_group {
  std::vector<std::uint32_t> steps{};  ///< in order; the last one makes the result
  std::shared_ptr<const fused_map> map{};
  program_inference::step operation{};  ///< without a map
  /// Values: the inputs of the map, or the operands of the operation without its result.
  std::vector<std::uint32_t> operands{};
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
  /// Adds a group of steps that are in none.
  void add(fused_group group);
  /// Sets `last_read` for the groups.
  void set_last_reads(const detail::program_graph& graph);
  /// The number of steps in groups.
  [[nodiscard]] std::size_t steps() const noexcept;
};

/// Adds the groups of neighbouring element-wise steps: those whose results only steps of one group
/// read, at the index at which they were made. The last step of a group may be a reduction. No step
/// of `folded` is one of them.
[[nodiscard]] fusion fuse_maps(const detail::program_graph& graph,
                               const program_inference& inferred, const folding& folded,
                               device_kind kind, fusion groups);

/// By value that is no view: the steps that read it or its views, in order.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> readers_of(
    const detail::program_graph& graph);
/// By input: the step whose result is written to the memory of the input; `fusion::none` if none
/// is.
[[nodiscard]] std::vector<std::uint32_t> overwriters_of(const detail::program_graph& graph,
                                                        const program_inference& inferred);
/// By step: whether it is in no group, because each run gives some of its parameters, or because it
/// is computed once.
[[nodiscard]] std::vector<bool> steps_apart(const detail::program_graph& graph,
                                            const program_inference& inferred,
                                            const folding& folded);

}  // namespace sluice::operations
